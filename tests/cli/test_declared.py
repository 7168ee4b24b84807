"""The verbs plan, apply, export and lint: their exit codes, and where they say that something is wrong."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
import yaml

from cli.conftest import Cli
from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora
from support.documents import Document, document, platform, route, task, template


def files(folder: Path, **documents: list[Document]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, found in documents.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(found, sort_keys=False, explicit_start=True))
    return folder


@pytest.fixture
def stocked(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    for seed, version in enumerate(("tone:1.0.0", "tone:1.1.0")):
        cli("push", str(write_lora(tmp_path / f"lora-{seed}", outline, seed=seed)), version)
    cli("promote", "tone:1.0.0")
    return cli


def test_a_plan_exits_by_what_it_would_change(stocked: Cli, tmp_path: Path) -> None:
    folder = str(files(tmp_path / "platform", all=platform()))
    planned = stocked("plan", "-f", folder)
    assert planned.code == 3 and "+ create     Route/front\n" in planned.out
    assert planned.out.endswith("Set platform: 12 to create, 1 to update, 0 to delete, 0 unchanged.\n")
    assert '      spec.displayName: "" → Tone\n' in planned.out
    assert stocked("apply", "-f", folder, "--dry-run").code == 0 and stocked("route", "list").out == ""
    applied = stocked("apply", "-f", folder, "--reason", "first")
    assert applied.code == 0 and "secret, shown this once: whsec_" in applied.out
    assert applied.out.endswith("Set platform: 12 created, 1 updated, 0 deleted, 0 unchanged.\n")
    again = stocked("plan", "-f", folder)
    assert (again.code, again.out) == (0, "Set platform: 0 to create, 0 to update, 0 to delete, 13 unchanged.\n")
    (folder_file,) = Path(folder).iterdir()
    files(Path(folder), all=[route("front", "tone:1.1.0")])
    pruned = stocked("plan", "-f", folder, "--prune", "-o", "json")
    assert pruned.code == 3 and json.loads(pruned.out)["changes"] == 9
    assert "spec.rules.0.targets.0.reference: tone:1.0.0 → tone:1.1.0" in stocked("plan", "-f", str(folder_file)).out


def test_what_is_refused_is_told_by_file_line_document_and_field(stocked: Cli, tmp_path: Path) -> None:
    good, bad = route("front"), route("other")
    bad["spec"]["rules"][0]["targets"][0]["wieght"] = 3
    folder = files(tmp_path / "platform", a=[task("mood")], b=[good, bad])
    (line,) = [n for n, text in enumerate((folder / "b.yaml").read_text().splitlines(), 1) if "wieght" in text]
    for verb in ("plan", "apply", "lint"):
        ran = stocked(verb, "-f", str(folder))
        assert ran.code == 1
        told = ran.out if verb == "lint" else ran.err
        assert f"{folder}/b.yaml:{line} (document 2)" in told
        assert "spec.rules.0.targets.0.wieght is not a field" in told and "there are reference, weight, arm" in told
    files(folder, b=[good, document("Adapter", "nope")])
    ran = stocked("plan", "-f", str(folder))
    assert ran.code == 1 and f"{folder}/b.yaml:11 (document 2): Adapter/nope: There is no adapter nope" in ran.err
    ran = stocked("apply", "-f", str(folder))
    assert ran.code == 1 and f"{folder}/b.yaml:11 (document 2): Adapter/nope: There is no adapter nope" in ran.err
    assert stocked("route", "list").out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", ":2: the key 'a' comes twice in one mapping."),
        ("- 1\n", ":1: this is no document of names and values."),
        ("", "There is no document in"),
        ("a: [\n", ":2: "),
    ],
)
def test_files_that_are_no_documents_are_told_by_line(cli: Cli, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    for verb in ("plan", "apply", "lint"):
        ran = cli(verb, "-f", str(tmp_path / "x.yaml"))
        assert ran.code in (1, 2) and said in ran.err


@pytest.mark.parametrize("name", ["none.yaml", "nothing/there", "empty"])
def test_where_there_is_nothing_to_read_the_command_is_wrong(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    for verb in ("plan", "apply", "lint"):
        ran = cli(verb, "-f", str(tmp_path / name))
        assert (ran.code, ran.out) == (2, "") and str(tmp_path / name) in ran.err


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (r'"a\u0000"', "the character U+0000 may not stand here"),
        (r'"\ud800"', "the character U+D800 may not stand here"),
        ("9" * 10_000, "is no number that can be kept"),
        ("NaN", "NaN is no number that can be kept"),
        ("-Infinity", "-Infinity is no number that can be kept"),
        ("1e999", "1e999 is no number that can be kept"),
    ],
    ids=lambda one: one[:12],
)
def test_what_no_server_takes_is_told_by_its_line_in_json_too(
    cli: Cli, tmp_path: Path, written: str, said: str
) -> None:
    good = r'"NaN \"\\", -1.5e-3, "\ud83d\ude00", [1, "1"]'
    (tmp_path / "x.json").write_text(f'{{"kind": "Route",\n"a": [{good},\n{written}, null]}}')
    for verb in ("plan", "apply", "lint"):
        ran = cli(verb, "-f", str(tmp_path / "x.json"))
        assert ran.code in (1, 2) and "x.json:3: " in ran.err and said in ran.err


def test_only_files_folders_and_stdin_are_read(cli: Cli, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.yaml")
    ran = cli("lint", "-f", str(tmp_path / "x.yaml"))
    assert ran.code in (1, 2) and "x.yaml is no file or folder; what comes from a pipe is read with -f -." in ran.err


def test_too_large_a_file_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"# " + b"x" * (4 << 20))
    assert "has more than 4 MiB; split it" in cli("lint", "-f", str(tmp_path / "x.yaml")).err


def test_stdin_and_json_are_read_too(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = yaml.safe_dump(template("careful")).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert cli("plan", "-f", "-").out.endswith("Set default: 1 to create, 0 to update, 0 to delete, 0 unchanged.\n")
    (tmp_path / "x.json").write_text(json.dumps({"documents": [template("a"), template("b")], "left_out": []}))
    (tmp_path / "y.json").write_text(json.dumps(template("c")))
    ran = cli("plan", "-f", str(tmp_path / "x.json"), "-f", str(tmp_path / "y.json"), "-o", "json")
    assert ran.code == 3 and json.loads(ran.out)["changes"] == 3


def test_what_is_refused_says_so_first_and_that_nothing_was_changed(stocked: Cli, tmp_path: Path) -> None:
    found = [route("front"), document("Adapter", "nope"), document("Adapter", "none")]
    folder = files(tmp_path / "platform", a=found)
    ran = stocked("apply", "-f", str(folder))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(" Nothing was changed; `graftwork plan` tells 1 more.\n")
    for words in (("plan",), ("apply", "--dry-run")):
        ran = stocked(*words, "-f", str(folder))
        assert ran.code == 1 and ran.err.count("There is no adapter") == 2
        assert ran.out.endswith("Set platform: refused, so that nothing was changed.\n")
    assert stocked("route", "list").out == ""


def test_a_folder_does_not_prune_another_one_that_is_called_so(stocked: Cli, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ours = str(files(tmp_path / "a" / "platform", all=[route("ours"), task("ours")]))
    theirs = str(files(tmp_path / "b" / "platform", all=[route("theirs")]))
    assert stocked("apply", "-f", ours).code == 0
    for verb in ("plan", "apply"):
        ran = stocked(verb, "-f", theirs, "--prune")
        assert (ran.code, ran.out) == (1, "")
        assert (
            "The set platform has 2 resources and none of these documents: another folder may be called so" in ran.err
        )
        assert "To replace all that it has, say --set platform; else give these another name by --set." in ran.err
    unpruned = stocked("plan", "-f", theirs)
    assert unpruned.code == 3 and "Give these another name by --set." in unpruned.err
    named = stocked("plan", "-f", theirs, "--prune", "--set", "platform")
    assert named.code == 3 and named.out.count("- delete") == 2
    assert stocked("apply", "-f", theirs, "--prune", "--set", "theirs").code == 0
    assert stocked("plan", "-f", theirs, "--prune", "--set", "theirs").code == 0
    assert stocked("plan", "-f", ours, "--prune").code == 0


def test_lint_asks_no_server(cli: Cli, tmp_path: Path) -> None:
    by_task = document("Route", "front", rules=[{"matches": [{"task": "mood"}], "refuse": {"message": "no"}}])
    folder = files(tmp_path / "platform", a=[by_task, template("careful")])
    ran = cli("lint", "-f", str(folder), "-o", "json")
    [warning] = ran.json()
    assert (warning["level"], warning["field"]) == ("warning", "documents.0.spec.rules.0.matches.0.task")
    assert warning["message"] == "Route/front names Task/mood, which is not among these documents."
    files(folder, b=[task("mood"), task("mood"), {"kind": "Rout"}])
    found = cli("lint", "-f", str(folder), "-o", "json")
    assert found.code == 1 and [one["level"] for one in json.loads(found.out)] == ["error", "error"]
    files(folder, b=[task("mood")])
    clean = cli("lint", "-f", str(folder))
    assert (clean.code, clean.err) == (0, "3 documents, nothing to say.\n")
    files(folder, b=[task("mood"), route("door", "front"), route("tone", "tone")])
    [warning] = cli("lint", "-f", str(folder), "-o", "json").json()
    assert warning["message"].startswith("Route/door names front, which is a route among these documents")
    assert not (Path(os.environ["GRAFTWORK_HOME"]) / "artifacts").exists()


def test_a_plan_can_be_looked_at_before_it_is_applied(stocked: Cli, tmp_path: Path) -> None:
    folder = files(tmp_path / "platform", a=[route("front")])
    seen = tmp_path / "seen.json"
    seen.write_text(stocked("plan", "-f", str(folder), "-o", "json").out)
    files(tmp_path / "other", a=[route("front", "tone:1.1.0")])
    assert stocked("apply", "-f", str(tmp_path / "other")).code == 0
    ran = stocked("apply", "-f", str(folder), "--plan", str(seen))
    assert ran.code == 1 and "Route/front changed since; plan again" in ran.err
    for wrong in ("{}", "[]", '{"digest": 1, "steps": 5}', '{"digest": "x", "steps": [1]}', "9" * 10_000):
        seen.write_text(wrong)
        ran = stocked("apply", "-f", str(folder), "--plan", str(seen))
        assert ran.code == 2 and "seen.json is no plan" in ran.err


def test_what_is_exported_is_applied_again(stocked: Cli, tmp_path: Path) -> None:
    assert stocked("apply", "-f", str(files(tmp_path / "platform", a=platform()))).code == 0
    written = stocked("export", "-o", str(tmp_path / "out"))
    assert written.code == 0 and sorted(one.name for one in (tmp_path / "out").iterdir())[:2] == [
        "adapter.yaml",
        "analysistemplate.yaml",
    ]
    assert stocked("plan", "-f", str(tmp_path / "out"), "--prune-all").code == 0
    text = stocked("export").out
    assert len(list(yaml.safe_load_all(text))) == len(platform()) - 1
    assert stocked("export", "-o", "-").out == text
    routes = stocked("export", "--kind", "Route", "-o", "json").json()["documents"]
    assert routes == [route("front")]
    assert stocked("export", "-o", str(tmp_path / "out")).code == 2
    assert stocked("export", "--kind", "Rout").code == 1


def test_an_export_of_more_than_is_applied_at_once_comes_in_parts(
    stocked: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [task("a"), task("b"), task("c"), route("front")]
    assert stocked("apply", "-f", str(files(tmp_path / "all", a=found))).code == 0
    monkeypatch.setattr("graftwork.protocol.declared.MAX_DOCUMENTS", 2)
    assert "apply takes 2 at once" in stocked("export", "--kind", "Task").err
    written = stocked("export", "--kind", "Task", "--kind", "Route", "-o", str(tmp_path / "out"))
    assert "4 documents, and apply takes 2 at once" in written.err
    parts = sorted((tmp_path / "out").iterdir())
    assert [one.name for one in parts] == ["route.yaml", "task-2.yaml", "task.yaml"]
    assert stocked("plan", *(word for one in parts for word in ("-f", str(one)))).code == 0


def test_a_version_is_exported_as_before(stocked: Cli, tmp_path: Path) -> None:
    made = stocked("export", "tone:1.0.0", str(tmp_path / "tone"), "--output", "json").json()
    assert made["format"] == "folder" and (tmp_path / "tone" / "adapter_config.json").is_file()
    assert stocked("export", "tone:1.0.0").code == 2
    assert stocked("export", "tone:1.0.0", str(tmp_path / "x"), "--kind", "Route").code == 2
    assert stocked("export", "tone:1.0.0", str(tmp_path / "x"), "--format", "zip").code == 2


def test_what_is_taken_away_needs_a_set(stocked: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path / "platform", a=[route("front")])
    many = ("-f", str(tmp_path / "platform" / "a.yaml"), "-f", str(tmp_path / "platform"))
    assert stocked("plan", *many[:2], "--prune", "--prune-all").code == 2
    ran = stocked(
        "apply", "-f", str(tmp_path / "platform" / "a.yaml"), "-f", str(tmp_path / "platform" / "a.yaml"), "--prune"
    )
    assert ran.code == 2 and "name it with --set" in ran.err
    assert stocked("apply", "-f", str(tmp_path / "platform"), "--set", "ours").out.startswith("+ create")
    (tmp_path / "platform" / "a.yaml").write_text(yaml.safe_dump(route("new")))
    ran = stocked("apply", "-f", str(tmp_path / "platform"), "--set", "ours", "--prune")
    assert "- delete     Route/front" in ran.out
