"""BaseIdentity: what makes a base model the one it is, as digests over its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graftwork.adapters.outline import Outline
from graftwork.errors import Refused
from graftwork.protocol.canonical import canonical, sha256

#: Of an outline, what says where the base came from.
_PROVENANCE = ("base", "source", "revision")
#: Of `config.json`, what transformers fills in when it saves a model.
_FILLED_IN = ("_name_or_path", "transformers_version")
_TOKENIZER_FILES = (
    "added_tokens.json", "merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer.model",
    "tokenizer_config.json", "vocab.json", "vocab.txt",
)  # fmt: skip


@dataclass(frozen=True)
class BaseIdentity:
    """Where a base came from, and digests of what it is; None for a part that it has not, or that nobody looked at."""

    source: str  #: hub id or folder
    revision: str | None
    architecture: str
    weights_digest: str  #: over the tensors by name, never over files
    outline_digest: str
    config_digest: str | None = None
    tokenizer_digest: str | None = None
    template_digest: str | None = None

    @property
    def digest(self) -> str:
        """Of weights, config, tokenizer and template together: equal for equal content, whoever it came from."""
        parts = ("weights", "config", "tokenizer", "template")
        return sha256(canonical({part: getattr(self, f"{part}_digest") for part in parts}, what="base"))


def identify_base(outline: Outline, folder: Path | None) -> BaseIdentity:
    """The identity of the base with this outline, whose files lie in `folder`.

    Raises:
        Refused: a file of it cannot be read.
    """
    shape = {field: value for field, value in asdict(outline).items() if field not in _PROVENANCE}
    told = {} if folder is None else dict(_digests(folder))
    return BaseIdentity(
        source=outline.source,
        revision=outline.revision,
        architecture=outline.architecture,
        weights_digest=outline.weights_digest,
        outline_digest=sha256(canonical(shape, what="outline")),
        **told,
    )


def _digests(folder: Path) -> Iterator[tuple[str, str]]:
    config = {field: value for field, value in _read(folder / "config.json").items() if field not in _FILLED_IN}
    yield "config_digest", sha256(canonical(config, what="config.json"))
    files = {name: _hash(folder / name) for name in _TOKENIZER_FILES if (folder / name).is_file()}
    if files:
        yield "tokenizer_digest", sha256(canonical(files, what="tokenizer"))
    if template := _template(folder):
        yield "template_digest", sha256(canonical(template, what="chat template"))


def _template(folder: Path) -> Any:
    if (file := folder / "chat_template.jinja").is_file():
        return file.read_text(encoding="utf-8")
    file = folder / "tokenizer_config.json"
    return _read(file).get("chat_template") if file.is_file() else None


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Refused(f"{file.name} of the base cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise Refused(f"{file.name} of the base is no JSON object.")
    return found
