"""SERVERS: other servers that can serve the live versions of a registry, as far as they know of such things."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from graftwork.client.servers.served import live_names
from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graftwork.client.client import Client
    from graftwork.client.servers.served import Served

SERVERS: Final = {"triton": "graftwork.client.servers.triton", "vllm": "graftwork.client.servers.vllm"}
#: Where the files of the versions lie in the folder that is made.
ADAPTERS: Final = "adapters"


class Server(Protocol):
    """A module with this function."""

    def files(self, served: Sequence[Served], base: str, root: Path) -> dict[str, str]:
        """The text of each file by its path below `root`, where the adapters lie in `adapters/<folder>`.

        Args:
            base: the base model as the server is to load it, a hub id or a path.
        """
        ...


def write_for(client: Client, server: str, root: Path) -> tuple[list[Served], list[str]]:
    """Make a folder that another server can start from: what it serves under which names, and what it cannot.

    Raises:
        InvalidRequest: there is something at `root`, or no such server.
    """
    if server not in SERVERS:
        raise InvalidRequest(f"The format {server[:80]!a} is none of {', '.join(SERVERS)}.", field="settings")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise InvalidRequest(f"{root} is there, and not an empty folder; name a new one.", field="settings")
    served, notes = live_names(client)
    name = client.base()["name"]
    base = next((one["source"] for one in client.bases.list() if one["name"] == name), name)
    root.mkdir(parents=True, exist_ok=True)
    for one in {one.folder: one for one in served}.values():
        (root / ADAPTERS).mkdir(exist_ok=True)
        client.pull(one.reference, root / ADAPTERS / one.folder)
    files = cast(Server, import_module(SERVERS[server])).files(served, base, root.absolute())
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return served, notes
