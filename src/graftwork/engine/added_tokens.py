"""A base's tokenizer with an adapter's tokens added, each at the id that the adapter's weights know it by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from tokenizers import Tokenizer

from graftwork.adapters.companions.tokenizer_additions import AddedToken
from graftwork.errors import Refused


def extended(backend: Tokenizer, added: Sequence[AddedToken]) -> Tokenizer:
    """A new tokenizer; `backend` stays as it is. Takes as long as loading one, a second for large vocabularies.

    Raises:
        Refused: a token cannot be given its id.
    """
    state = json.loads(backend.to_str())
    state["added_tokens"] = sorted(state["added_tokens"] + [asdict(one) for one in added], key=lambda one: one["id"])
    vocab = state["model"].get("vocab")
    if isinstance(vocab, dict) and not _in_a_row(backend, added):
        # Otherwise each takes the next free id; a token that the model's vocabulary knows keeps the one it has there.
        vocab |= {one["content"]: one["id"] for one in state["added_tokens"]}
    try:
        made = Tokenizer.from_str(json.dumps(state))
    except Exception as error:  # tokenizers raises bare exceptions
        raise Refused(f"The adapter's tokens cannot be added to the base's tokenizer: {error}") from error
    for one in state["added_tokens"]:
        if made.token_to_id(one["content"]) != one["id"]:
            raise Refused(
                f"The token {one['content'][:80]!r} cannot be given the id {one['id']} in the base's tokenizer."
            )
    return made


def _in_a_row(backend: Tokenizer, added: Sequence[AddedToken]) -> bool:
    first = backend.get_vocab_size(with_added_tokens=True)
    return sorted(one.id for one in added) == list(range(first, first + len(added)))
