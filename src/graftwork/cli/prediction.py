"""The verbs of answers that were given: explain, prediction list|forget|recording, feedback, usage."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, print_facts, print_table, write
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import read_mapping
from graftwork.errors import InvalidRequest

prediction_app = typer.Typer(no_args_is_help=True, help="Answers that were given: their records.")

RequestId = Annotated[
    str, typer.Argument(metavar="REQUEST_ID", help="X-Graftwork-Request of the answer, or the id in its body.")
]
User = Annotated[str | None, typer.Option(help="Only those of this user.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help="Not before, as 2026-01-31T09:30:00Z.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Before.")]
Day = Annotated[str | None, typer.Option(metavar="DAY", help="A day in UTC, such as 2026-01-31.")]

_COLUMNS: Columns = {
    "at": lambda row: row["at"],
    "request": lambda row: row["request_id"],
    "model": lambda row: row["model"] or row["asked"],
    "route": lambda row: row["route"],
    "arm": lambda row: row["arm"],
    "user": lambda row: row["user_id"],
    "outcome": lambda row: row["outcome"] if row["outcome"] != "error" else f"error: {row['error']}",
    "tokens": lambda row: f"{row['prompt_tokens']}+{row['output_tokens']}",
    "seconds": lambda row: f"{row['latency_s']:.3f}",
}
_USAGE = ("day", "adapter", "requests", "errors", "prompt_tokens", "output_tokens", "cached_tokens", "seconds")


def add_to(app: typer.Typer) -> None:
    add_verb(app, explain)
    for verb in (listed, forget, recording):
        add_verb(prediction_app, verb, "list" if verb is listed else None)
    app.add_typer(prediction_app, name="prediction")
    add_verb(app, feedback)
    add_verb(app, usage)


def explain(
    ctx: typer.Context,
    request_id: Annotated[
        str,
        typer.Argument(
            metavar="REQUEST_ID",
            help="X-Graftwork-Request of the answer, or the id in its body; its first 8 characters, behind the dash of "
            "an id, will do.",
        ),
    ],
) -> None:
    """Show all that is known of one answer: who gave it, why that one, how it stood then, and who brought it there."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.predictions.explain(request_id)
    write(found, context.output, lambda: _print(found))


def listed(
    ctx: typer.Context,
    adapter: Annotated[str | None, typer.Option(help="Only answers of this adapter.")] = None,
    route: Annotated[str | None, typer.Option(help="Only those of this route.")] = None,
    arm: Annotated[str | None, typer.Option(help="Only those of this arm.")] = None,
    user: User = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only those that are ok, error, aborted or refused.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the newest.")] = 100,
) -> None:
    """Show recorded answers, the newest first."""
    context = context_of(ctx)
    filters = {"adapter": adapter, "route": route, "arm": arm, "user": user, "session": session, "outcome": outcome}
    with context.client() as client:
        found = client.predictions.list(limit=limit, since=since, until=until, **filters)
    write(found, context.output, lambda: print_table(found, _COLUMNS, empty="No such answers are recorded."))


def forget(ctx: typer.Context, user: Annotated[str, typer.Option(help="Whose.")]) -> None:
    """Delete every record of a user with its hashes, texts and feedback; sums of usage stay."""
    context = context_of(ctx)
    with context.client() as client:
        done = {"deleted": client.predictions.forget(user)}
    write(done, context.output, lambda: print_facts(done))


def recording(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="A Recording resource to set, YAML or JSON.")
    ] = None,
) -> None:
    """Show how your answers are recorded, or set it."""
    context = context_of(ctx)
    with context.client() as client:
        if file is None:
            found = client.predictions.recording()
        else:
            found = client.predictions.set_recording(read_mapping(file, field="policy"))
    write(found, context.output, lambda: print_facts(found["spec"]))


def feedback(
    ctx: typer.Context,
    request_id: RequestId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called, such as rating or purchase.")],
    value: Annotated[float | None, typer.Option(help="A number.")] = None,
    label: Annotated[str | None, typer.Option(help="A word.")] = None,
    source: Annotated[str, typer.Option(help="Where it comes from.")] = "user",
) -> None:
    """Say something of an answer: a score or a business event, at any later time; again takes its place."""
    if value is None and label is None:
        raise InvalidRequest("Say something: --value, --label, or both.", field="message")
    context = context_of(ctx)
    with context.client() as client:
        said = client.predictions.feedback(request_id, name, value=value, label=label, source=source)
    write(said, context.output, lambda: print_facts(said))


def usage(
    ctx: typer.Context,
    adapter: Annotated[str | None, typer.Option(help="Only of this adapter, or of the base by its name.")] = None,
    since: Day = None,
    until: Day = None,
) -> None:
    """Show what you used of each adapter on each day, from --since to before --until; also as --output csv."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.predictions.usage(adapter=adapter, since=since, until=until)
    columns: Columns = {name.replace("_", " "): itemgetter(name) for name in _USAGE}
    write(found, context.output, lambda: print_table(found, columns, empty="Nothing was used."))


def _print(found: dict[str, Any]) -> None:
    record = found["prediction"]
    times = {name: record[name] and f"{record[name]:.4f}" for name in ("queue_s", "ttft_s", "latency_s")}
    print_facts({name: value for name, value in {**record, **times}.items() if name not in ("adapters", "sampling")})
    for name, value in sorted(record["sampling"].items()):
        print(f"sampling.{name}  {value}")
    for event in found["decided_by"]:
        _print_event(event, "")
    for one in found["history"]:
        print(f"\n{one['adapter']}:{one['version']}  {one['digest']}")
        for pointer in one["pointers"]:
            print(
                f"  then @{pointer['alias']} was {pointer['version']}, by {pointer['moved_by']} {pointer['moved_at']}"
            )
        for event in one["events"]:
            _print_event(event, "  ")
    for said in found["feedback"]:
        told = " ".join(str(part) for part in (said["value"], said["label"]) if part is not None)
        print(f"\nfeedback  {said['name']} {told}  ({said['source']}, {said['at']})")
    for one in found["shadows"]:
        like = "" if one["similarity"] is None else f", similarity {one['similarity']:.3f}"
        print(f"\nshadow  {one['shadow_model']} ({one['rollout']}): {one['error'] or 'answered'}{like}")
    if found["text_withheld"]:
        print("\nWhat was said is kept; your key may not see it (scope texts, role admin).")
    if found["text"] is not None:
        import json

        print("\n" + json.dumps(found["text"], indent=2, ensure_ascii=False))


def _print_event(event: dict[str, Any], before: str) -> None:
    reason = event["payload"].get("reason")
    print(f"{before}{event['at']}  {event['kind']} by {event['actor']}" + (f": {reason}" if reason else ""))
