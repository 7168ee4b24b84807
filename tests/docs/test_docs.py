"""The documents say what is: generated pages, words, links, named tests, and everything the code has a name for."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from docs.pages import ROOT, blocks_of, links_of, named, pages, rows_of, text_of
from docs.running import says
from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings

PAGES = [named(page) for page in pages()]
#: What kinds of events look like: a thing, and what was done to it.
_EVENT = re.compile(r"[a-z]+(?:_[a-z]+)*\.(?:set|began|rolled_back|[a-z_]+e[dn])")
#: The folder and the adapter that a shell block pushes, and the version where it says which.
_PUSHED = re.compile(r"graftwork push (\S+) ([a-z][\w.-]*)(?::(\d[\w.+-]*))?")
_TEST_ID = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None, "docs/generate.py is there"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["cli.md", "settings.md", "metrics.md", "errors.md", "kinds.md", "metadata.md"])
def test_generated_pages_are_what_the_code_says(page: str) -> None:
    made = generator()
    assert text_of(f"docs/reference/{page}") == made.NOTE + made.PAGES[page](), "run: python docs/generate.py"


def test_the_schemas_of_documents_are_those_of_the_code() -> None:
    made = generator().schemas()
    written = {f"schemas/{file.name}" for file in (ROOT / "docs" / "reference" / "schemas").glob("*")}
    assert written == made.keys()
    assert [name for name, text in made.items() if text_of(f"docs/reference/{name}") != text] == []


def test_every_flag_of_serve_is_a_setting() -> None:
    from typer.main import get_command

    from graftwork.cli.main import app

    serve = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    flags = {parameter.name for parameter in serve.params} - {"output", "help"}
    assert flags <= set(Settings.model_fields)


def test_every_number_of_the_engine_has_its_meaning() -> None:
    made = generator()
    assert set(made.ENGINE_NUMBERS) == made.stats_fields()


def test_every_door_is_documented_and_every_documented_door_is_there(settings: Settings) -> None:
    paths = build_app(settings).openapi()["paths"]
    doors = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    written = set(re.findall(r"^### ([A-Z]+ \S+)$", text_of("docs/reference/http.md"), re.M))
    assert written == doors


def test_every_member_of_the_python_doors_is_documented() -> None:
    from graftwork.embedded import Engine

    page = text_of("docs/reference/embedded.md")
    for door in (Client, Engine):
        members = [name for name, _ in inspect.getmembers(door, inspect.isfunction) if not name.startswith("_")]
        assert members
        assert [name for name in members if f"{name}(" not in page] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    for link in links_of(page):
        if "://" in link or link.startswith(("#", "mailto:")):
            continue
        target = (ROOT / page).parent / link.partition("#")[0]
        assert target.exists(), f"{page}: {link}"
        assert ROOT in target.resolve().parents, f"{page}: {link} leads out of the project"


def test_every_page_of_the_documents_can_be_reached_from_the_readme() -> None:
    seen, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen:
            continue
        seen.add(page)
        for link in links_of(named(page)):
            target = (page.parent / link.partition("#")[0]).resolve() if "://" not in link else page
            if target.is_dir():
                waiting += target.glob("*.md")
            elif target.suffix == ".md" and target.is_file():
                waiting.append(target)
    assert [page for page in PAGES if page.startswith("docs/") and ROOT / page not in seen] == []


def test_nobody_is_told_to_install_a_release_that_is_not_there() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *map(ROOT.joinpath, PAGES)]
    wrong = re.compile(r"pip install [^\n]*?(?<![\w./:-])graftwork\b")
    assert [str(file) for file in sources if wrong.search(file.read_text(encoding="utf-8"))] == []


def test_glossary_words_are_unique_and_in_order() -> None:
    words = [row[0] for row in rows_of("docs/glossary.md")[1:]]
    assert words == sorted(set(words), key=str.casefold)


@pytest.mark.parametrize("page", ["docs/requirements.md", "docs/threat-model.md", "tests/CASES.md"])
def test_named_tests_exist(page: str) -> None:
    found = _TEST_ID.findall(text_of(page))
    assert found
    assert [f"{file}::{name}" for file, name in found if name not in names_in(file)] == []


@cache
def names_in(file: str) -> frozenset[str]:
    if not (ROOT / file).is_file():
        return frozenset()
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def test_every_requirement_has_its_row_with_a_status_and_tests() -> None:
    rows = {row[0]: row for row in rows_of("docs/requirements.md") if re.fullmatch(r"[ABC]\d+", row[0])}
    wanted = [f"A{n}" for n in range(1, 24)] + [f"B{n}" for n in range(1, 15)] + [f"C{n}" for n in range(1, 5)]
    assert list(rows) == wanted
    for row, (_, _, status, tests) in rows.items():
        kind = re.match(r"now|part: |not yet", status)
        assert kind, f"{row}: {status}"
        assert bool(tests) == (kind[0] != "not yet"), f"{row}: tests, if and only if something works"


def test_cases_are_listed_once_each() -> None:
    cases = [row[0] for row in rows_of("tests/CASES.md")[1:]]
    assert len(set(cases)) == len(cases)
    assert all(re.fullmatch(r"[TR]\d+", case) for case in cases)


def test_every_kind_of_event_is_declared() -> None:
    """Whoever asks for another kind than `KINDS` has is told that there is none."""
    from graftwork.registry.subjects import KINDS

    written = set[str]()
    for file in (ROOT / "src" / "graftwork").rglob("*.py"):
        texts = (node.value for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Constant))
        written |= {text for text in texts if isinstance(text, str) and _EVENT.fullmatch(text)}
    assert written and written - KINDS == set(), "add them to KINDS in registry/subjects.py"


def test_every_room_of_the_house_is_in_the_architecture() -> None:
    page = text_of("docs/architecture.md")
    source = ROOT / "src" / "graftwork"
    rooms = [f"{room.name}/" for room in source.iterdir() if (room / "__init__.py").is_file()]
    rooms += [file.name for file in source.glob("*.py") if file.name not in ("__init__.py", "version.py")]
    assert [room for room in rooms if f"`{room}`" not in page] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/")])
def test_files_that_a_page_names_exist(page: str) -> None:
    named_files = re.findall(r"`((?:[a-z_]+/)+[a-z_0-9]+\.py)`", text_of(page))
    places = (ROOT / "src" / "graftwork", ROOT)
    assert [file for file in named_files if not any((place / file).is_file() for place in places)] == []


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.M))
    for page in PAGES:
        assert set(re.findall(r"`make ([a-z-]+)", text_of(page))) <= targets, page
        for block in blocks_of(page):
            if block.language == "sh":
                assert set(re.findall(r"^make ([a-z-]+)", block.text, re.M)) <= targets, str(block)


@pytest.mark.parametrize("page", PAGES)
def test_shell_blocks_name_commands_and_options_that_exist(page: str) -> None:
    reference = text_of("docs/reference/cli.md")
    for block in blocks_of(page):
        if block.language != "sh":
            continue
        for command in re.findall(r"(?:^|[|&] *)(?:[A-Z_]+=\S+ )*graftwork ([^\n|>]*)", block.text, re.M):
            verb = command.split()[0]
            assert re.search(rf"^## graftwork {verb}\b", reference, re.M), f"{block}: {command}"
            for option in re.findall(r"(?<!\S)--[a-z-]+", command):
                assert f"{option} " in reference or f"{option}`" in reference or f"{option}," in reference, (
                    f"{block}: {option}"
                )


def test_python_that_is_not_run_is_part_of_what_is() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page) if block.language == "python"]
    proven = {line for block in blocks if block.runs for line in block.text.splitlines()}
    for block in blocks:
        assert [line for line in block.text.splitlines() if line not in proven] == [], str(block)


def test_pages_that_push_an_adapter_agree_on_its_first_version() -> None:
    """Pages share a server: bytes that another page has pushed under another number would be refused."""
    first: dict[tuple[str, str], dict[str, str]] = {}
    for page in PAGES:
        own: dict[tuple[str, str], str] = {}
        for block in blocks_of(page):
            for folder, name, version in _PUSHED.findall(block.text) if block.runs else ():
                own.setdefault((name, version or "1.0.0"), folder)
        for version, folder in own.items():
            first.setdefault(version, {})[page] = folder
    assert len(first) >= 10
    assert [found for found in first.values() if len(set(found.values())) > 1] == []


def test_the_platform_of_the_examples_has_adapters_of_its_own() -> None:
    """So that it can be applied whatever another page, or a push of every folder by its name, has left."""
    documents = yaml.safe_load_all(text_of("examples/platform/adapters.yaml"))
    own = {one["metadata"]["name"] for one in documents}
    folders = {folder.name for folder in (ROOT / "examples/adapters").iterdir()}
    pushed = {
        name
        for page in set(PAGES) - {"docs/howto/keep-it-in-git.md"}
        for block in blocks_of(page)
        for _, name, _ in _PUSHED.findall(block.text)
    }
    assert own and not own & (folders | pushed)


def test_an_ellipsis_stands_for_any_lines() -> None:
    assert says("a\n…\nz\n", "a\nb\nc\nz\n")
    assert says("…\nz\n", "z")
    assert says("sha256:12… 2026-01-01T00:00:00.000000Z\n", "sha256:ab12 2027-01-01T00:00:00.000001Z\n")
    assert not says("a\n", "a\nb\n")


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    from graftwork import __version__

    first = re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.M)
    assert first is not None and first[1] == __version__
