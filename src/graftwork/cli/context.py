"""Context: the global options, and the client and settings that verbs get from them."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graftwork.errors import InvalidRequest, NotFound, Unavailable

if TYPE_CHECKING:
    from graftwork.client import Client
    from graftwork.settings import Settings


class OutputFormat(StrEnum):
    """How a result is written to stdout."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@dataclass(frozen=True)
class Context:
    """What every verb is told."""

    url: str | None
    output: OutputFormat

    def settings(self, *, registry: bool = False, **given: Any) -> Settings:
        """The settings of this process; flags that were not given are left to the environment and the file.

        Args:
            registry: whether there must be a registry already where they say.

        Raises:
            InvalidRequest: naming the setting that is wrong.
            NotFound: there must be a registry, and there is none.
        """
        found = self._read_settings(given)
        if registry:
            _require_registry(found)
        return found

    def _read_settings(self, given: Mapping[str, Any]) -> Settings:
        from pydantic import ValidationError
        from pydantic_settings import SettingsError
        from yaml import YAMLError

        from graftwork.settings import Settings

        try:
            return Settings(**{key: value for key, value in given.items() if value is not None})
        except ValidationError as error:
            from graftwork.cli.wrong_setting import say_wrong_setting

            said = say_wrong_setting(error.errors()[0], given, os.environ, tuple(Settings.model_fields))
            raise InvalidRequest(said, field="settings") from error
        except SettingsError as error:
            from graftwork.cli.wrong_setting import say_unreadable

            raise InvalidRequest(say_unreadable(str(error)), field="settings") from error
        except (OSError, ValueError) as error:
            raise InvalidRequest(f"The settings cannot be read: {error}.", field="settings") from error
        except YAMLError as error:
            from graftwork.registry.yaml_fault import yaml_fault

            raise InvalidRequest(f"graftwork.yaml is not YAML: {yaml_fault(error)}.", field="settings") from error

    def refuse_server(self, why: str) -> None:
        """Raises InvalidRequest, beginning with `why`, where a server is named: what follows would not speak to it."""
        if self.url is not None:
            raise InvalidRequest(f"{why}, and not through the server at {self.url}: {self.without_url}.", field="url")

    @property
    def without_url(self) -> str:
        """What to do so that no server is named."""
        return "unset GRAFTWORK_URL" if os.environ.get("GRAFTWORK_URL") == self.url else "leave --url out"

    @contextmanager
    def client(self, *, engine: bool = False, registry: bool = False) -> Iterator[Client]:
        """A client of the server at --url, or else of an app in this process.

        Args:
            engine: whether the app in this process needs an engine, which takes seconds to load.
            registry: whether there must be a registry already where that app would open, or make, one.
        """
        from graftwork.client import Client

        if self.url is not None:
            with _told_how_to_start(self), Client(self.url) as client:
                yield client
            return
        with _nothing_collected():
            from graftwork.gateway.app import build_app
            from graftwork.gateway.real_engine import make_engine

            app = build_app(self.settings(registry=registry), make_engine=make_engine if engine else None)
        with Client(app=app) as client:
            yield client


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """What is imported and built stays: to look through it for garbage meanwhile takes a tenth of a verb's time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _require_registry(settings: Settings) -> None:
    from graftwork.db import has_tables

    if not has_tables(settings.database):
        where = settings.home if settings.database_url is None else "the database of GRAFTWORK_DATABASE_URL"
        raise NotFound(
            f"There is no registry in {where}. Set GRAFTWORK_HOME to the home of one, or GRAFTWORK_URL to its server; "
            "the first push makes a new one."
        )


@contextmanager
def _told_how_to_start(context: Context) -> Iterator[None]:
    import httpx

    try:
        yield
    except Unavailable as error:
        if not isinstance(error.__cause__, httpx.ConnectError):
            raise
        hint = f"Start one with `graftwork serve`, or {context.without_url} to work without one."
        raise Unavailable(f"{error.message} {hint}") from error


def context_of(ctx: Any) -> Context:
    """The Context that the global options made."""
    context: Context = ctx.obj
    return context
