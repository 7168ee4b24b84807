"""Starting: quickly, without the heavy libraries, with help that helps."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer
from pydantic_core import PydanticUndefined

import graftwork
from graftwork.cli.main import app
from graftwork.settings import Settings

if TYPE_CHECKING:
    from cli.conftest import Cli

HEAVY = {"torch", "transformers", "numba", "alembic"}
WEB = {"fastapi", "sqlalchemy", "httpx", "pydantic", "numpy", "rich.table"}


def modules_after(code: str) -> set[str]:
    """Modules that a fresh Python has loaded after `code`."""
    told = "print(*sys.modules, file=sys.stderr)"
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n{told}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


def test_help_loads_nothing_that_is_slow() -> None:
    code = "sys.argv = ['graftwork', '--help']; from graftwork.cli import main; main()"
    assert not modules_after(code) & (HEAVY | {"asyncio", "yaml"} | WEB - {"rich.table"})


def test_a_verb_that_asks_a_server_has_no_server_of_its_own() -> None:
    code = "sys.argv = 'graftwork list --url http://127.0.0.1:9'.split(); from graftwork.cli import main; main()"
    own = {"fastapi", "sqlalchemy", "numpy", "obstore", "cryptography", "yaml"}
    assert not modules_after(code) & (HEAVY | own)


@pytest.mark.usefixtures("outline")
def test_a_registry_verb_runs_without_the_data_plane(cli: Cli) -> None:
    cli("list")  # makes the database, which needs alembic once
    code = "sys.argv = ['graftwork', 'list']; from graftwork.cli import main; main()"
    assert not modules_after(code) & (HEAVY | {"numpy", "safetensors"})


def test_importing_the_package_loads_nothing() -> None:
    assert not modules_after("import graftwork") & (HEAVY | WEB)


#: What a registry verb cannot do without.
LIBRARIES = "import alembic, fastapi, httpx, pydantic_settings, rich, sqlalchemy, typer"


def best_of(times: int, *arguments: str, command: Sequence[str] = ("-m", "graftwork.cli")) -> float:
    """The least processor time of `graftwork …`, in seconds: what it takes where nothing else runs."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def once() -> float:
        before = spent()
        subprocess.run([sys.executable, *command, *arguments], capture_output=True, check=True)
        return spent() - before

    return min(once() for _ in range(times))


@pytest.mark.alone
def test_help_takes_a_third_of_a_second() -> None:
    slow_machine = 2.5 * best_of(3, "import typer.rich_utils", command=("-c",))
    assert best_of(3, "--help") <= max(0.3, slow_machine)


@pytest.mark.usefixtures("outline")
@pytest.mark.alone
def test_a_registry_verb_takes_a_second(cli: Cli) -> None:
    cli("list")
    slow_machine = 2.5 * best_of(3, LIBRARIES, command=("-c",))
    assert best_of(3, "list") <= max(1.0, slow_machine)


def test_version(cli: Cli) -> None:
    assert cli("--version").out == cli("version").out == f"graftwork {graftwork.__version__}\n"


@pytest.mark.parametrize(
    "verb",
    ["serve", "push", "list", "show", "history", "promote", "rollback", "ask", "inspect", "demo"],
)
def test_every_verb_has_help(cli: Cli, verb: str) -> None:
    ran = cli(verb, "--help")
    assert ran.code == 0
    assert "--output" in ran.out


def test_serve_tells_each_flags_default_and_variable() -> None:
    command = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    flags = [parameter for parameter in command.params if parameter.name in Settings.model_fields]
    assert len(flags) == 13
    for flag in flags:
        default = Settings.model_fields[flag.name].default
        assert f"GRAFTWORK_{flag.name.upper()}" in flag.help
        assert f"default {default}," in flag.help or default in (None, (), PydanticUndefined)


def test_url_tells_its_variable(cli: Cli) -> None:
    assert "GRAFTWORK_URL" in cli("list", "--help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shells_script(cli: Cli, shell: str) -> None:
    assert f"_GRAFTWORK_COMPLETE=complete_{shell}" in cli("completion", shell).out


def test_the_completion_script_completes(cli: Cli) -> None:
    command = Path(sys.executable).parent / "graftwork"
    typed = f"COMP_WORDS=(graftwork promot); COMP_CWORD=1; _graftwork_completion {command}; echo ${{COMPREPLY[@]}}"
    script = f"{cli('completion', 'bash').out}\n{typed}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["promote", "promotion"]


@pytest.mark.parametrize("name", ["No Name", "latest", "v2", "default"])
def test_serve_refuses_a_base_name_that_cannot_be_used(cli: Cli, name: str) -> None:
    ran = cli("serve", "--base-name", name)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("graftwork: The base name")


def test_alone_it_shows_its_help(cli: Cli) -> None:
    assert "Commands" in cli().out
