"""The format `hub`: a repository of the Hugging Face Hub, whose README.md is the model card.

Format: https://huggingface.co/docs/hub/model-cards; an adapter's own README.md lies in `.graftwork`, byte for byte.
What others wrote has no record: then the card's front matter and its results are read, and every file is the adapter's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from graftwork.adapters.files.json_file import CONFIG_NAME
from graftwork.artifacts.bundle import KEPT_DOT_NAMES
from graftwork.artifacts.packages.package import RECORD, Json, Package, laid_out, plain
from graftwork.artifacts.packages.piece import Piece, Pieces
from graftwork.client.formats import written
from graftwork.errors import InvalidRequest
from graftwork.registry.documents.front_matter import read_card
from graftwork.registry.evaluations.files import read_result_file
from graftwork.registry.evaluations.hugging_face import MODEL_INDEX

CARD: Final = "README.md"
_RESULTS: Final = ".eval_results/"
_MAX_READ_BYTES: Final = 1 << 20


def write(package: Package, card: str, aside: Path) -> dict[str, Piece]:
    pieces = laid_out(package, taken=CARD)
    return {**pieces, CARD: written(aside, CARD, card), RECORD: written(aside, RECORD, package.text())}


def read(pieces: Pieces) -> Package | None:
    if CONFIG_NAME not in pieces:
        return None
    files = {path: piece for path, piece in pieces.items() if _is_kept(path)}
    card = _front_matter(files)
    return plain(files, origin={}, metadata=_metadata(card), measured=tuple(_measured(files, card)))


def _is_kept(path: str) -> bool:
    """By the rule of a push: names that begin with a dot are the repository's, not the adapter's."""
    return all(not part.startswith(".") or part in KEPT_DOT_NAMES for part in path.split("/"))


def _front_matter(files: Pieces) -> Mapping[str, Any]:
    """What the card says; nothing where it cannot be read, which is its author's to see and no reason not to import."""
    if CARD not in files or files[CARD].size > _MAX_READ_BYTES:
        return {}
    with suppress(InvalidRequest):
        return read_card(files[CARD].read(CARD, _MAX_READ_BYTES))[0]
    return {}


def _metadata(card: Mapping[str, Any]) -> Json:
    languages, datasets = _texts(card.get("language")), _texts(card.get("datasets"))
    license_ = _texts(card.get("license"))
    found = {
        "license": license_[0] if license_ else None,
        "language": languages,
        "datasets": [{"name": name} for name in datasets],
    }
    return {key: value for key, value in found.items() if value}


def _measured(files: Pieces, card: Mapping[str, Any]) -> Iterator[Json]:
    """Results as the Hub keeps them.

    Raises:
        InvalidRequest: naming the file and the place in it that is not as it must be.
    """
    names = [path for path in files if path.startswith(_RESULTS) and path.endswith((".yaml", ".yml"))]
    for name in [*([CARD] if card.get(MODEL_INDEX) else []), *names]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name.rpartition("/")[2]
            path.write_bytes(files[name].read(name, _MAX_READ_BYTES))
            try:
                found = read_result_file(path)
            except InvalidRequest as error:
                raise InvalidRequest(error.message.replace(str(path), name, 1), field="source") from error
            yield from (one.evaluation for one in found)


def _texts(value: object) -> list[str]:
    return [text[:1024] for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text][
        :256
    ]
