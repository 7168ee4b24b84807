"""A process that tries out grammars of strangers, so that one that overflows the stack or the memory is not felt.

It is asked `{"kind", "source"}` as in `Grammar`, and answers `{"grammar", "bytes"}`: the grammar as llguidance reads it
and about how much memory it takes; or `{"error"}`. With either comes `cpu_s`, how long a processor was at it.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path
from time import process_time
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from llguidance.gbnf_to_lark import gbnf_to_lark

from graftwork.engine.grammar import GrammarKind
from graftwork.engine.grammar_limits import PARSER_LIMITS
from graftwork.engine.grammar_options import WHITESPACE
from graftwork.engine.limited_worker import serve
from graftwork.engine.row_grammar import reason_of

#: An eighth of what a thread usually has: what nests too deeply for the server ends here.
_STACK_BYTES = 1 << 20


class _Bytes:
    """A tokenizer of 256 bytes and an end, for which every grammar is tried."""

    eos_token_id, bos_token_id = 256, None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<end>"]
    special_token_ids = [256]  # noqa: RUF012

    def __call__(self, text: bytes) -> list[int]:
        return list(text)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    began_s = process_time()
    answer = _tried(asked)  # and all that it took is given back
    return {**answer, "cpu_s": process_time() - began_s}


def _tried(asked: dict[str, Any]) -> dict[str, Any]:
    before = _resident_bytes()
    try:
        grammar = _in_llguidances_words(asked["kind"], asked["source"])
    except (ValueError, RecursionError) as error:
        return {"error": reason_of(str(error))}
    matcher = LLMatcher(_TOKENIZER, grammar, limits=PARSER_LIMITS, log_level=0)
    matcher.compute_logit_bias()  # some are found out only here
    if matcher.is_error():
        return {"error": reason_of(matcher.get_error())}
    return {"grammar": grammar, "bytes": max(_resident_bytes() - before, len(grammar))}


def _in_llguidances_words(kind: GrammarKind, source: str) -> str:
    match kind:
        case "json":
            return LLMatcher.grammar_from_json_schema(source, overrides=WHITESPACE)
        case "regex":
            return LLMatcher.grammar_from_regex(source)
        case "choice":
            one_of = " | ".join(map(json.dumps, json.loads(source)))  # one terminal: of rules there may be few
            return LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {one_of}")
        case "grammar":
            return LLMatcher.grammar_from_lark(gbnf_to_lark(source) if "::=" in source else source)


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


_TOKENIZER = LLTokenizer(TokenizerWrapper(_Bytes()))

if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK_BYTES, most))
    serve(_answer)
