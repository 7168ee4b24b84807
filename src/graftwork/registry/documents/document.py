"""Document: one companion of a version, and what may be one; values in, values out."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import check_digest
from graftwork.artifacts.paths import check_path
from graftwork.errors import InvalidRequest

if TYPE_CHECKING:  # clients know documents, too, and no database
    from sqlalchemy import Row

KINDS: Final = (
    "model_card",
    "tokenizer",
    "chat_template",
    "training_log",
    "evaluation_report",
    "data_schema",
    "compliance",
    "feature_encoder",
    "other",
)
MAX_NAME_BYTES: Final = 255
MAX_NOTE: Final = 2048
MAX_BYTES: Final = 256 << 20
#: A model card is read and written anew as a whole.
MAX_CARD_BYTES: Final = 1 << 20
MARKDOWN: Final = "text/markdown"
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}", re.ASCII)
#: Marks that are not seen but turn a name around: "report\u202egpj.exe".
_UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})


@dataclass(frozen=True)
class Content:
    """What a document is: its kind, its file name, and the bytes it stands for."""

    kind: str
    name: str
    media_type: str
    size: int
    digest: str
    note: str = ""


@dataclass(frozen=True)
class Document:
    """A companion of one version, in the order of `id`: `bundle-3` lay in its bundle, `7` was added later."""

    id: str
    source: Literal["bundle", "added"]
    content: Content
    revision: int  #: 1, 2, … of its kind and name
    superseded: bool  #: there is a later revision
    created_at: str
    created_by: str

    def to_json(self) -> dict[str, Any]:
        data = {**self.__dict__, **self.content.__dict__}
        del data["content"]
        return data

    @classmethod
    def from_row(cls, row: Row[Any]) -> Document:
        content = Content(row.kind, row.name, row.media_type, row.size, row.digest, row.note)
        return cls(
            str(row.number), "added", content, row.revision, bool(row.superseded), row.created_at, row.created_by
        )


def check_content(content: Content) -> Content:
    """`content` itself, when it may be added.

    Raises:
        InvalidRequest: naming the field that is not allowed.
    """
    if content.kind not in KINDS:
        raise InvalidRequest(f"The kind {content.kind[:80]!a} is none of {', '.join(KINDS)}.", field="kind")
    _check_name(content.name)
    if not _MEDIA_TYPE.fullmatch(content.media_type):
        raise InvalidRequest(
            f"The media type {content.media_type[:80]!a} is not like text/markdown: lower case, without parameters.",
            field="media_type",
        )
    check_digest(content.digest)
    most = MAX_CARD_BYTES if content.kind == "model_card" else MAX_BYTES
    if not 0 <= content.size <= most:
        raise InvalidRequest(f"A document of kind {content.kind} has at most {most} bytes.", field="size")
    if len(content.note) > MAX_NOTE or "\0" in content.note:
        raise InvalidRequest(f"The note has at most {MAX_NOTE} characters, none of them NUL.", field="note")
    return content


def _check_name(name: str) -> None:
    check_path(name)
    if "/" in name or any(unicodedata.category(char) in _UNSEEN for char in name):
        raise InvalidRequest(
            f"The name {name[:80]!a} is not allowed: a document has a file name without folders, of characters that "
            "one can see.",
            field="name",
        )
    assert len(name.encode()) <= MAX_NAME_BYTES, "check_path limits each part of a path"


#: What files of a bundle are companions, by name; weights and config are the adapter itself.
_BUNDLED: Final = {
    "README.md": ("model_card", MARKDOWN),
    "added_tokens.json": ("tokenizer", "application/json"),
    "chat_template.jinja": ("chat_template", "text/plain"),
    "merges.txt": ("tokenizer", "text/plain"),
    "special_tokens_map.json": ("tokenizer", "application/json"),
    "tokenizer.json": ("tokenizer", "application/json"),
    "tokenizer.model": ("tokenizer", "application/octet-stream"),
    "tokenizer_config.json": ("tokenizer", "application/json"),
    "trainer_state.json": ("training_log", "application/json"),
    "vocab.json": ("tokenizer", "application/json"),
    "vocab.txt": ("tokenizer", "text/plain"),
}
_RESULTS = ".eval_results/"


def bundled(file: BundleFile) -> Content | None:
    """What the file of a bundle is as a document; None where it is none."""
    kind, media_type = _BUNDLED.get(file.path, (None, ""))
    name = file.path
    if file.path.startswith(_RESULTS):
        kind, media_type, name = "evaluation_report", "application/yaml", file.path.rpartition("/")[2]
    if kind is None:
        return None
    return Content(kind, name, media_type, file.size, file.digest)
