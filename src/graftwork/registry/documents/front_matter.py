"""Front matter: the YAML block at the head of a model card, read without trusting it, as the Hugging Face Hub does."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from graftwork.errors import InvalidRequest
from graftwork.registry.yaml_fault import yaml_fault

MAX_BYTES: Final = 64 << 10
MAX_DEPTH: Final = 32
# The Hub's own pattern (huggingface_hub/repocard.py).
_BLOCK = re.compile(r"^(\s*---(?:\r\n|\r|\n))([\S\s]*?)((?:\r\n|\r|\n)---[ \t]*(\r\n|\n|$))")
#: What PyYAML raises for scalars that are not of the type they claim, and for what nests too deep.
_ODD: Final = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError)
#: Reads the same as `yaml.SafeLoader`; libyaml's is ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_card(raw: bytes) -> tuple[dict[str, Any], str]:
    """The front matter of a card, empty where it has none, and the text below it.

    Raises:
        InvalidRequest: it is not text in UTF-8, or its front matter is not a YAML mapping of plain values.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise InvalidRequest("A model card is text in UTF-8.", field="card") from exc
    match = _BLOCK.search(text)
    if match is None:
        return {}, text
    return read_mapping(match[2], lines_before=len(match[1].splitlines())), text[match.end() :]


def write_card(matter: dict[str, Any], text: str) -> str:
    """The card that `read_card` reads so."""
    block = yaml.dump(matter, Dumper=_Written, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n{block}---\n{text}"


def read_mapping(text: str, *, what: str = "The front matter of a model card", lines_before: int = 0) -> dict[str, Any]:
    """A YAML mapping by name, of plain values without aliases; raises InvalidRequest, naming `what` and the line.

    Args:
        lines_before: of the file that the text is a part of.
    """
    if len(text.encode()) > MAX_BYTES:
        raise InvalidRequest(f"{what} has at most {MAX_BYTES} bytes.", field="card")
    try:
        _check_plain(text, what)
        value = yaml.load(text, _LOADER)
        yaml.dump(value, Dumper=_Written)  # what cannot be written again, no card could show
    except InvalidRequest:
        raise
    except (yaml.YAMLError, *_ODD) as exc:
        raise InvalidRequest(
            f"{what} is not YAML: {yaml_fault(exc, lines_before=lines_before)}.", field="card"
        ) from exc
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidRequest(f"{what} is a YAML mapping by name.", field="card")
    return value


def _check_plain(text: str, what: str) -> None:
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):  # a few of them can mean gigabytes
            raise InvalidRequest(f"{what} may not use YAML aliases (*name).", field="card")
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"{what} is nested deeper than {MAX_DEPTH}.", field="card")


class _Written(yaml.SafeDumper):
    """Writes what stands in two places twice, not as an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
