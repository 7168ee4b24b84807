"""The registry's verbs in this process: one document on stdout, words on stderr, meaningful exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora
from support.fixtures import Tiny

if TYPE_CHECKING:
    from cli.conftest import Cli


@pytest.fixture
def adapter(outline: Outline, tmp_path: Path) -> Path:
    return write_lora(tmp_path / "adapter", outline)


def test_push_list_show_promote_history(cli: Cli, adapter: Path) -> None:
    pushed = cli("push", str(adapter), "alpha:1.2", "--meta", "labels.team=blue", "--output", "json").json()
    assert (pushed["semver"], pushed["created"]) == ("1.2.0", True)
    assert pushed["metadata"]["labels"] == {"team": "blue"}
    assert [row["name"] for row in cli("list", "-o", "json").json()] == ["alpha"]
    assert [row["semver"] for row in cli("list", "alpha", "-o", "json").json()] == ["1.2.0"]
    assert cli("promote", "alpha:1.2.0", "--reason", "good", "-o", "json").json()["stage"] == "production"
    assert cli("show", "alpha", "-o", "json").json()["aliases"] == ["production"]
    assert [event["kind"] for event in cli("history", "alpha", "-o", "json").json()][-1] == "version.promoted"


def test_the_same_folder_again_changes_nothing_and_says_so(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha")
    again = cli("push", str(adapter), "alpha", "-o", "json")
    assert again.json()["created"] is False
    assert "registered before" in again.err


def test_rollback_and_aliases(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    for number in (1, 2):
        folder = write_lora(tmp_path / f"a{number}", outline, seed=number)
        assert cli("push", str(folder), f"alpha:{number}.0.0").code == 0
        assert cli("promote", f"alpha:{number}.0.0").code == 0
    assert cli("rollback", "alpha", "-o", "json").json()["semver"] == "1.0.0"
    assert cli("alias", "set", "alpha", "champion", "alpha:2.0.0").code == 0
    assert cli("show", "alpha@champion", "-o", "json").json()["semver"] == "2.0.0"
    assert cli("alias", "rm", "alpha", "champion", "-o", "json").json()["removed"] is True
    assert cli("show", "alpha@champion").code == 1


def test_promote_says_what_a_bare_name_meant_and_when_nothing_changes(
    cli: Cli, outline: Outline, tmp_path: Path
) -> None:
    for number in (1, 2):
        cli("push", str(write_lora(tmp_path / str(number), outline, seed=number)), f"alpha:{number}.0.0")
    assert cli("promote", "alpha").err == "graftwork: alpha meant alpha:2.0.0.\n"
    assert cli("promote", "alpha:1.0.0").err == ""
    again = cli("promote", "alpha")
    assert again.code == 0 and "alpha:1.0.0 is in production already; nothing changed." in again.err
    assert "graftwork promote alpha:2.0.0" in again.err


def test_what_has_no_version_of_its_own_is_told_without_one(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha", "--meta", "code.dirty=false", "--meta", "training.hyperparameters.on=[1, null]")
    assert "code.dirty=false, training.hyperparameters.on=[1, null]" in cli("show", "alpha").out
    cli("hold", "set", "alpha", "--reason", "case 7")
    told = cli("history", "alpha").out.splitlines()[-1]
    assert told.endswith("hold.set         case 7") and "None" not in told
    assert cli("alias", "set", "alpha", "canary", "9.9.9").err.endswith("write alpha:9.9.9.\n")
    for wrong, word in (("alpha@nope", "never had an alias nope"), ("nosuch", "no adapter nosuch")):
        assert cli("history", wrong).code == 1 and word in cli("history", wrong).err
    assert "no adapter nosuch" in cli("delete", "nosuch").err
    assert "graftwork delete alpha --all-versions" in cli("delete", "alpha").err


def test_a_search_says_that_there_is_more(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    for number in (1, 2):
        cli("push", str(write_lora(tmp_path / str(number), outline, seed=number)), f"alpha:{number}.0.0")
    assert cli("search", "--limit", "2").err == ""
    first = cli("search", "--limit", "1", "-o", "json")
    assert len(first.json()) == 1 and "there are more" in first.err


def test_verify_exits_1_where_something_is_missing(cli: Cli, adapter: Path, tmp_path: Path) -> None:
    digest = cli("push", str(adapter), "alpha", "-o", "json").json()["manifest"]["files"][0]["digest"]
    assert cli("verify", "-o", "json").json()["problems"] == []
    [blob] = (tmp_path / "home" / "artifacts").rglob(digest.removeprefix("sha256:"))
    blob.unlink()
    ran = cli("verify", "alpha")
    assert ran.code == 1
    assert "missing" in ran.out
    assert "alpha:1.0.0 adapter_config.json" in ran.out


def test_tables_are_for_people(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha:1.0.0")
    for verb in (["list"], ["list", "alpha"], ["show", "alpha"], ["history", "alpha"], ["base", "show"]):
        ran = cli(*verb)
        assert ran.code == 0
        assert ran.out.strip()
    assert "1.0.0" in cli("list").out
    assert "rank 4" in cli("show", "alpha").out


def test_yaml_is_one_document(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha:1.0.0")
    assert yaml.safe_load(cli("show", "alpha", "--output", "yaml").out)["semver"] == "1.0.0"


def test_global_options_stand_before_or_after_the_verb(cli: Cli) -> None:
    assert cli("--output", "json", "list").json() == []
    assert cli("list", "--output", "json").json() == []


def test_an_empty_registry_says_what_to_do(cli: Cli) -> None:
    ran = cli("list")
    assert (ran.code, ran.out) == (0, "")
    assert "graftwork push" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["show", "nope"], 1, "nope"),
        (["show", "../x"], 1, "reference"),
        (["push", "/nowhere", "alpha"], 1, "/nowhere"),
        (["rollback", "nope"], 1, "nope"),
        (["push", "x", "alpha", "--meta", "nonsense"], 2, "KEY=VALUE"),
        (["list", "--output", "xml"], 2, "xml"),
        (["list", "--url", "http://127.0.0.1:9"], 1, "No answer from"),
        (
            [
                "list",
                "--url",
                "http://[",
            ],
            2,
            "url",
        ),
        (["frobnicate"], 2, "frobnicate"),
        (["push"], 2, "Missing"),
    ],
)
def test_errors_are_one_message_and_an_exit_code(cli: Cli, arguments: list[str], code: int, word: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert word in ran.err


def test_a_setting_that_is_wrong_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTWORK_PORT", "many")
    ran = cli("list")
    assert (ran.code, ran.err) == (2, "graftwork: GRAFTWORK_PORT: port must be a whole number, not 'many'.\n")
    flagged = cli("serve", "--port", "99999")
    assert (flagged.code, flagged.err) == (2, "graftwork: --port: port must be at most 65535, not 99999.\n")


def test_a_list_in_the_environment_that_is_no_json_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTWORK_PIN", "alpha")
    assert cli("list").err.startswith("graftwork: GRAFTWORK_PIN must be a list in JSON")


def test_an_unknown_setting_is_named_with_the_one_that_was_meant(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graftwork.yaml").write_text("prot: 80\n")
    monkeypatch.chdir(tmp_path)
    ran = cli("list")
    assert (ran.code, ran.err) == (2, "graftwork: graftwork.yaml: there is no setting prot. Did you mean port?\n")


def test_kind_and_digest_of_a_row_are_of_the_version_that_answers(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    old = cli("push", str(write_lora(tmp_path / "old", outline, rank=2)), "alpha:1.0.0", "-o", "json").json()
    cli("promote", "alpha:1.0.0")
    cli("push", str(write_lora(tmp_path / "new", outline, rank=4)), "alpha:2.0.0")
    row = cli("list").out.splitlines()[1].split()
    assert row == ["alpha", "1.0.0", "2.0.0", "2", "lora", "r2", "fake-base", old["digest"][7:19]]


def test_a_folder_above_adapters_is_refused_with_the_ones_below(cli: Cli, adapter: Path) -> None:
    ran = cli("push", str(adapter.parent), "alpha")
    assert ran.code == 1
    assert f"{adapter.parent} holds no adapter_config.json" in ran.err
    assert f"Did you mean {adapter}?" in ran.err


@pytest.mark.parametrize("verb", ["promote", "history", "list"])
def test_an_unknown_adapter_says_where_to_look(cli: Cli, verb: str) -> None:
    ran = cli(verb, "nothere")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "graftwork: There is no adapter nothere. `graftwork list` shows what there is.\n"


def test_an_unknown_version_says_where_to_look(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha")
    ran = cli("show", "alpha@champion")
    assert ran.err == "graftwork: There is no version alpha@champion. `graftwork list alpha` shows what there is.\n"


def test_no_server_says_how_to_go_on(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "leave --url out" in cli("list", "--url", "http://127.0.0.1:9").err
    monkeypatch.setenv("GRAFTWORK_URL", "http://127.0.0.1:9")
    assert "Start one with `graftwork serve`, or unset GRAFTWORK_URL to work without one." in cli("list").err


def test_the_base_is_shown_in_plain_words(cli: Cli) -> None:
    names = [line.split()[0] for line in cli("base", "show").out.splitlines()]
    assert names[:3] == ["name", "from", "architecture"]
    assert not {"base", "format", "num_kv_heads"} & set(names)


def test_a_refused_push_lists_its_problems(cli: Cli, adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").write_bytes(b"garbage")
    ran = cli("push", str(adapter), "alpha")
    assert ran.code == 1
    assert "adapter_model.safetensors" in ran.err
    assert cli("list", "-o", "json").json() == []


def test_an_adapter_for_another_base_is_refused_with_the_shapes(cli: Cli, tmp_path: Path) -> None:
    from graftwork.testing import fake_outline

    folder = write_lora(tmp_path / "wide", fake_outline(width=16))
    ran = cli("push", str(folder), "alpha")
    assert ran.code == 1
    assert "16" in ran.err and "8" in ran.err


def test_bases_are_recorded_listed_and_shown(cli: Cli, adapter: Path) -> None:
    pushed = cli("push", str(adapter), "alpha", "-o", "json").json()
    [base] = cli("base", "list", "-o", "json").json()
    assert (base["name"], base["weights_digest"]) == ("fake-base", pushed["base_digest"])
    assert base["config_digest"] is not None
    shown = cli("base", "show", f"fake-base@{base['digest'][:19]}", "-o", "json").json()
    assert shown == {**base, "manifest": None} == cli("base", "register", "-o", "json").json()
    assert cli("base", "pull", "fake-base", "somewhere").code == 1
    assert "fake-base" in cli("base", "list").out


def test_a_base_goes_into_the_store_and_comes_out(cli: Cli, tiny: Tiny, tmp_path: Path) -> None:
    folder = tiny.base.folder
    pushed = cli("base", "push", str(folder), "--name", "tiny", "--source", "org/tiny", "-o", "json").json()
    assert pushed["weights_digest"] == tiny.outline.weights_digest
    shown = cli("base", "pull", f"tiny@{pushed['digest']}", str(tmp_path / "pulled"))
    assert (shown.code, "org/tiny" in shown.out) == (0, True)
    assert (tmp_path / "pulled" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_metadata_by_dotted_keys_and_by_file(cli: Cli, adapter: Path, tmp_path: Path) -> None:
    (file := tmp_path / "about.yaml").write_text("author: Ada\ncode: {repo: r, commit: abc}\nlanguage: [fr]\n")
    options = (
        "--metadata", str(file), "--meta", "code.commit=12e4567", "--meta", "code.dirty=true",
        "--meta", "language=en,de", "--meta", "training.hyperparameters.learning_rate=2e-4",
        "--meta", "training.hyperparameters.optimizer=adamw", "--meta", "labels.team=7",
    )  # fmt: skip
    metadata = cli("push", str(adapter), "alpha", *options, "-o", "json").json()["metadata"]
    assert metadata["author"] == "Ada"
    assert metadata["code"] == {"repo": "r", "commit": "12e4567", "dirty": True}
    assert metadata["language"] == ["en", "de"]
    assert metadata["training"]["hyperparameters"] == {"learning_rate": 2e-4, "optimizer": "adamw"}
    assert metadata["labels"] == {"team": "7"}
    assert "training.hyperparameters.learning_rate=0.0002" in cli("show", "alpha").out


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--meta", "team=blue"], 1, "metadata.labels.team"),
        (["--meta", "code.dirty=perhaps"], 1, "metadata.code.dirty"),
        (["--meta", "author"], 2, "KEY=VALUE"),
        (["--meta", "a..b=1"], 2, "KEY=VALUE"),
        (["--meta", "author=x", "--meta", "author.name=y"], 2, "a value of its own"),
        (["--metadata", "missing.yaml"], 1, "missing.yaml"),
        (["--metadata", "wrong.yaml"], 2, "neither YAML nor JSON"),
        (["--metadata", "list.json"], 2, "no document"),
    ],
)
def test_metadata_that_cannot_be_read_are_refused(
    cli: Cli, adapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.yaml").write_text("a: [")
    Path("list.json").write_text("[]")
    done = cli("push", str(adapter), "alpha", *options)
    assert (done.code, said in done.err) == (code, True)


def test_other_files_of_the_same_content_are_told(cli: Cli, adapter: Path) -> None:
    cli("push", str(adapter), "alpha")
    (adapter / "README.md").write_text("news")
    done = cli("push", str(adapter), "alpha", "-o", "json")
    assert (done.json()["same_content_as"], done.json()["semver"]) == ("alpha:1.0.0", "1.0.1")
    assert "those of alpha:1.0.0" in done.err


@pytest.mark.parametrize("pair", ['datasets=[{"uri": "s3://a"}]', "datasets.0.uri=s3://a", "preprocessing=clean"])
def test_metadata_that_only_a_file_can_say_are_sent_there(cli: Cli, tmp_path: Path, pair: str) -> None:
    ran = cli("push", str(tmp_path), "alpha", "--meta", pair)
    assert ran.code == 2 and "--metadata FILE" in ran.err
