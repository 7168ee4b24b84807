"""The verbs that set versions side by side: compare, trend."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import Columns, Row, as_json, print_table, size, write
from graftwork.cli.registry import Name
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

#: A longer value of a config says only that it differs.
_SHOWN = 60


def add_to(app: typer.Typer) -> None:
    add_verb(app, compare)
    add_verb(app, trend)


def compare(
    ctx: typer.Context,
    references: Annotated[
        list[str], typer.Argument(metavar="REF", help="Two versions or more; the first is the baseline.")
    ],
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric; repeatable.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, for a pull request.")] = False,
    paired: Annotated[bool, typer.Option(help="Test on the examples that versions have in common.")] = True,
) -> None:
    """Compare versions with the first: metrics, what of their configuration differs, sizes."""
    context = context_of(ctx)
    if len(references) < 2:
        raise InvalidRequest("Name two versions or more to compare; the first is the baseline.", field="settings")
    if markdown and context.output is not OutputFormat.TABLE:
        raise InvalidRequest("Say either --markdown or --output.", field="settings")
    with context.client() as client:
        found = client.evaluations.compare(*references, metrics=metric or (), paired=paired)
    tell = _print_markdown if markdown else print_table
    write(found, context.output, lambda: _print_comparison(found, tell))


def trend(
    ctx: typer.Context,
    name: Name,
    metric: Annotated[str, typer.Argument(metavar="METRIC", help="For example accuracy.")],
    limit: Annotated[int, typer.Option(help="Values of so many evaluations, of the newest versions.")] = 100,
) -> None:
    """Follow a metric over an adapter's versions, each with its change from the one before."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.evaluations.trend(name, metric, limit=limit)
    points = [{**series, **point} for series in found["series"] for point in series["points"]]
    columns: Columns = {
        "measured": _subject,
        "version": lambda row: row["version"],
        metric: lambda row: f"{row['value']:.6g}",
        "± stderr": lambda row: row["stderr"] and f"{row['stderr']:.3g}",
        "change": lambda row: None if row["delta"] is None else f"{row['delta']:+.3g} {row['direction']}",
        "n": lambda row: row["n"],
    }
    write(found, context.output, lambda: print_table(points, columns, empty=""))


def _print_comparison(found: Row, tell: Any) -> None:
    labels = [version["reference"] for version in found["versions"]]
    tell(found["versions"], _VERSIONS, empty="")
    print()
    columns: Columns = {
        "measured": _subject,
        "metric": lambda row: row["metric"],
        labels[0]: lambda row: _value(row["values"][0]),
        **{label: _column(at) for at, label in enumerate(labels) if at},
        "notes": lambda row: row["notes"],
    }
    tell(found["metrics"], columns, empty="Nothing was measured of any of them.")
    if correction := found["correction"]:
        print(f"\np: paired tests, {correction['tests']} of them, corrected together by Holm's method.")
    print()
    differences: Columns = {
        "differs": lambda row: row["field"],
        **{label: _difference(at) for at, label in enumerate(labels)},
    }
    tell(found["differences"], differences, empty="Their configuration is the same.")


_VERSIONS: Columns = {
    "version": lambda row: row["reference"],
    "stage": lambda row: row["stage"],
    "kind": lambda row: f"{row['kind']} r{row['rank']}",
    "base": lambda row: row["base"],
    "tensors": lambda row: size(row["bytes"]),
    "files": lambda row: size(row["files_bytes"]),
}


def _subject(row: Row) -> str:
    on = row["on"]
    where = ", ".join(f"{key}={value}" for key, value in on.items())
    if "id" in on:
        where = "/".join(on[part] for part in ("id", "config") if part in on)
        where += "".join(f"@{on[part][:12]}" for part in ("revision", "digest") if part in on)
    said = (
        row["name"],
        where if where != row["name"] else "",
        row["split"],
        row["source"] if row["source"] != "offline" else "",
    )
    return " ".join(word for word in said if word)


def _value(value: Row | None) -> str | None:
    return None if value is None else f"{value['value']:.6g}"


def _column(at: int) -> Any:
    def cell(row: Row) -> str | None:
        value, delta = row["values"][at], row["deltas"][at - 1]
        if value is None or delta is None:
            return _value(value)
        told = delta["direction"] if delta["delta"] is None else f"{delta['delta']:+.3g} {delta['direction']}"
        if paired := delta["paired"]:
            low, high, p, matched = (paired[field] for field in ("low", "high", "p_corrected", "matched"))
            told += f"; {paired['test']} p={p:.2g}, 95% [{low:+.3g}, {high:+.3g}], n={matched}"
        return f"{_value(value)} ({told})"

    return cell


def _difference(at: int) -> Any:
    def cell(row: Row) -> str:
        told = "-" if (value := row["values"][at]) is None else as_json(value)
        return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}…"

    return cell


def _print_markdown(rows: list[Any], columns: Columns, *, empty: str) -> None:
    if not rows:
        print(empty)
        return
    lines = [list(columns), ["---"] * len(columns), *([_text(cell(row)) for cell in columns.values()] for row in rows)]
    for line in lines:
        print(f"| {' | '.join(line)} |")


def _text(cell: object) -> str:
    told = ", ".join(map(str, cell)) if isinstance(cell, list) else str(cell or "-")
    return " ".join(told.replace("|", "\\|").split())
