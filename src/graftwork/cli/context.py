"""Context: the global options, and the client and settings that verbs get from them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from graftwork.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from graftwork.client import Client
    from graftwork.settings import Settings


class OutputFormat(StrEnum):
    """How a result is written to stdout."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True)
class Context:
    """What every verb is told."""

    url: str | None
    output: OutputFormat

    def settings(self, **given: Any) -> Settings:
        """The settings of this process; flags that were not given are left to the environment and the file.

        Raises:
            InvalidRequest: naming the setting that is wrong.
        """
        from pydantic import ValidationError
        from pydantic_settings import SettingsError

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

    @contextmanager
    def client(self, *, engine: bool = False) -> Iterator[Client]:
        """A client of the server at --url, or else of an app in this process.

        Args:
            engine: whether the app in this process needs an engine, which takes seconds to load.
        """
        from graftwork.client import Client

        if self.url is not None:
            with _told_how_to_start(self.url), Client(self.url) as client:
                yield client
            return
        from graftwork.gateway.app import build_app
        from graftwork.gateway.real_engine import make_engine

        with Client(app=build_app(self.settings(), make_engine=make_engine if engine else None)) as client:
            yield client


@contextmanager
def _told_how_to_start(url: str) -> Iterator[None]:
    import httpx

    try:
        yield
    except Unavailable as error:
        if not isinstance(error.__cause__, httpx.ConnectError):
            raise
        without = "unset GRAFTWORK_URL" if os.environ.get("GRAFTWORK_URL") == url else "leave --url out"
        hint = f"Start one with `graftwork serve`, or {without} to work without one."
        raise Unavailable(f"{error.message} {hint}") from error


def context_of(ctx: Any) -> Context:
    """The Context that the global options made."""
    context: Context = ctx.obj
    return context
