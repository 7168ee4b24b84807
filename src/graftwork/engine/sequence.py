"""Sequence: one request while the engine works on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from graftwork.adapters.serving_form import Traits
from graftwork.engine.block_keys import BlockKeys
from graftwork.engine.detokenizer import Detokenizer
from graftwork.engine.pooler import Pooler
from graftwork.engine.request import AdapterHandle, Caller, TokenLogprob
from graftwork.engine.row_grammar import RowGrammar
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.stop import StopMatcher
from graftwork.engine.text import Text
from graftwork.errors import InvalidRequest

_NOWHERE = range(0)


@dataclass(eq=False)
class Sequence:
    """Prompt and answer so far. `num_computed` tokens have their keys and values in `pages`; the rest is pending.

    With `keys` it may begin with pages that other rows have filled, and leaves its own to them.

    There is no prefill or decode phase: a step computes some of the pending tokens, and when none is left the next
    token is sampled. Owned by the loop thread from submission on.
    """

    id: str
    tokens: list[int]
    num_prompt: int
    params: SamplingParams
    seed: int
    max_tokens: int
    stop_ids: frozenset[int]
    adapter: AdapterHandle | None
    detokenizer: Detokenizer
    stop: StopMatcher
    text: Text  # the base's, or that of an adapter which brings its own words
    caller: Caller = field(default_factory=Caller)
    echo: str = ""  # what the answer's text begins with
    grammar: RowGrammar | None = None  # what the answer may be; None: anything
    pooler: Pooler | None = None  # of a row that generates nothing and ends with its prompt
    arrival: int = 0
    submitted_at: float = 0.0  # by the loop's clock
    queued_s: float | None = None  # from then to its first step; None: it has not come yet
    paid: int = 0  # tokens, from the beginning, that were counted in the tenant's share
    kept_until: int = 0  # tokens that it has to reach before it gives way once more
    may_stay: bool = False  # with its pin, until it runs, whoever else is short of memory
    met: bool = False  # its adapter: `meet` is done
    slot: int | None = None  # of the pinned adapter
    num_virtual: int = 0  # tokens at the beginning that stand for what the adapter puts there
    acts_from: int | None = 0  # position from which the adapter acts; None: nowhere
    num_computed: int = 0
    pages: list[int] = field(default_factory=list)
    keys: BlockKeys | None = None  # of what is shared with other rows; None: nothing is
    num_shared: int = 0  # leading pages that others may read, or have filled
    num_cached: int | None = None  # tokens that were there when the row first ran; None: it has not
    rated: list[TokenLogprob] = field(default_factory=list)  # the prompt's tokens from the second on, where asked for
    alternatives: int | None = field(init=False)  # to find for each of them; None: they are not rated

    def __post_init__(self) -> None:
        self.alternatives = self.params.prompt_alternatives

    def meet(self, traits: Traits, max_context: int) -> None:
        """Make room for the adapter's virtual tokens, and find where it begins to act; done once, however often asked.

        Raises:
            InvalidRequest: prompt, virtual tokens and answer do not fit the context, or the adapter has another task.
        """
        if self.met:
            return
        self.met = True
        self._check_task(traits)
        if traits.virtual_tokens:
            total = traits.virtual_tokens + len(self.tokens)
            least = 1 if self.params.max_tokens is None else self.params.max_tokens
            if total + min(self.max_tokens, least) > max_context:
                raise InvalidRequest(
                    f"The adapter puts {traits.virtual_tokens} virtual tokens before the prompt of {len(self.tokens)}; "
                    f"with the answer that is more than the context of {max_context}.",
                    field="prompt" if self.pooler else "max_tokens",
                )
            self.num_virtual = traits.virtual_tokens
            self.tokens[:0] = [0] * self.num_virtual
            self.num_prompt += self.num_virtual
            self.max_tokens = min(self.max_tokens, max_context - total)
        if traits.invocation is not None:
            self.acts_from = _last_place(traits.invocation, self.tokens)
        if self.keys is not None and (traits.virtual_tokens or traits.invocation is not None):
            self.keys.restart()

    def _check_task(self, traits: Traits) -> None:
        """A classifier classifies and embeds; whatever else it would say nobody has trained it for."""
        wants_classes = self.pooler is not None and self.pooler.pooling == "classes"
        if wants_classes and traits.labels is None:
            name = self.adapter.label if self.adapter else "The base model"
            raise InvalidRequest(
                f"{name} has no classification head; name an adapter that was trained with one (task_type SEQ_CLS).",
                field="model",
            )
        if self.pooler is None and traits.labels is not None:
            assert self.adapter is not None, "the base has no labels"
            raise InvalidRequest(
                f"{self.adapter.label} is a classifier (task_type SEQ_CLS) and generates no text; send it to "
                "/v1/classify or /v1/embeddings.",
                field="model",
            )

    @property
    def num_pending(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def num_reusable(self) -> int:
        """Tokens at the beginning of which only keys and values are needed, and not what the model makes of them.

        The last token is never one: what follows it is wanted.
        """
        if self.pooler is not None and self.pooler.pooling == "mean":
            return 0
        return min(len(self.tokens) - 1, self.unrated.start) if self.unrated else len(self.tokens) - 1

    @property
    def cached_prompt(self) -> int:
        """Of the tokens that the caller gave, those that were there when the row first ran."""
        return max(0, (self.num_cached or 0) - self.num_virtual)

    def block_keys(self, count: int) -> list[bytes]:
        """Keys of the row's first `count` full blocks; none where it shares nothing."""
        return [] if self.keys is None else self.keys.of(self.tokens, count, self.acts_from)

    @property
    def prompt(self) -> list[int]:
        """The tokens that the caller gave."""
        return self.tokens[self.num_virtual : self.num_prompt]

    @property
    def unrated(self) -> range:
        """Positions whose logits rate a token of the prompt, which is the next, and were not looked at yet."""
        if self.alternatives is None:
            return _NOWHERE
        return range(self.num_virtual + len(self.rated), self.num_prompt - 1)

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def output(self) -> list[int]:
        return self.tokens[self.num_prompt :]


def _last_place(wanted: tuple[int, ...], tokens: list[int]) -> int | None:
    """Where `wanted` begins in `tokens` for the last time."""
    places = range(len(tokens) - len(wanted), -1, -1)
    return next((at for at in places if tuple(tokens[at : at + len(wanted)]) == wanted), None)
