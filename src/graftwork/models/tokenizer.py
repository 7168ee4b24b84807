"""The base's tokenizer: loaded as transformers loads it, and outlined for the adapters that bring their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graftwork.adapters.companions.tokenizer_outline import TokenizerOutline
from graftwork.errors import Refused


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a Hugging Face folder.

    Raises:
        Refused: it cannot be read, or has no `tokenizers` backend.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers and tokenizers raise anything, bare Exception included
        raise Refused(f"The tokenizer in {folder} cannot be read: {error}") from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise Refused(f"The tokenizer in {folder} has no tokenizer.json; save it as a fast tokenizer first.")
    return tokenizer


def tokenizer_outline(folder: Path) -> TokenizerOutline | None:
    """Of the base in `folder`; None when its tokenizer cannot be used, which the engine says when it starts."""
    try:
        backend = load_tokenizer(folder).backend_tokenizer
    except Refused:
        return None
    files = [json.loads(backend.to_str())]
    if (file := folder / "tokenizer.json").is_file():
        files.append(json.loads(file.read_text(encoding="utf-8")))
    return TokenizerOutline.of(backend.get_vocab(), files)
