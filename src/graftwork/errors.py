"""Every error a caller can meet.

    GraftworkError
    ├── InvalidRequest          the caller's words are wrong; `field` says where
    │   ├── InvalidMetadata     what a version is described by breaks its schema, or contradicts the files
    │   └── InvalidResource     a document is not one that can be applied; `field` says where
    ├── Unauthenticated         no API key, or none that is valid
    ├── NotFound                no such thing, or not for you: the two look alike
    │   └── UnknownModel        a reference names nothing that can answer
    ├── Conflict                the thing is taken, in use, or moved meanwhile
    │   ├── PreconditionFailed  compare-and-swap: it is no longer what you expected
    │   └── Held                it cannot be deleted: `holders` says who needs it
    ├── Forbidden               a policy does not allow it; `problems` says what is missing
    ├── RouteRefused            a rule of the route refuses the request, with its own status and message
    ├── Refused                 an adapter or base cannot be served rightly; `problems` says why
    ├── Damaged                 stored bytes are missing or no longer match their digest
    ├── Unavailable             not now: starting, full, or shutting down; try again after `retry_after_s`
    │   └── TooManyRequests     you have your share of the queue, or of the minute, already; others go on
    │       └── QuotaExhausted  you keep as much as you may; waiting alone does not help
    ├── TimedOut                the answer was not complete in the time that it may take
    ├── GenerationFailed        one row of a batch failed; its neighbours did not
    └── UnreadableAnswer        the model answered, and not with what the task promises

The message says what was wrong, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

#: Why nothing is taken in any more, for `Unavailable`.
SHUTTING_DOWN = "The server is shutting down."
#: Words that a message names of those that there are.
_SHOWN = 40


def meant(word: str, known: Iterable[str]) -> str:
    """What there is in place of a word that is none of `known`, and which of it may be meant, as the end of a message.

    >>> meant("producton", ("staging", "production"))
    'Did you mean production? There are production, staging.'
    """
    from difflib import get_close_matches

    words = sorted(known)
    if not words:
        return "There are none."
    near = get_close_matches(word, words, n=1)
    shown = f"{', '.join(words[:_SHOWN])}{', …' if words[_SHOWN:] else ''}"
    return f"{f'Did you mean {near[0]}? ' if near else ''}There {'is' if len(words) == 1 else 'are'} {shown}."


class GraftworkError(Exception):
    """Base of all errors raised for a caller's sake."""

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else (type(self).__doc__ or type(self).__name__)


class InvalidRequest(GraftworkError):
    """The request cannot be read as it stands."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidMetadata(InvalidRequest):
    """A version's metadata do not follow their schema, or contradict its files."""


class InvalidResource(InvalidRequest):
    """A resource document does not follow its schema."""


class Unauthenticated(GraftworkError):
    """Who is asking is not known: there is no API key, or none that is valid."""


class NotFound(GraftworkError):
    """There is no such thing, or it is not yours to see."""


class UnknownModel(NotFound):
    """The reference names no model that can answer."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"The model {reference!r} does not exist. GET /v1/models lists what can be called.")
        self.reference = reference


class Conflict(GraftworkError):
    """The name or version is taken, or the thing is in use."""


class PreconditionFailed(Conflict):
    """The pointer is no longer where you expected it."""


class Held(Conflict):
    """Somebody needs it, so it cannot be deleted."""

    def __init__(self, message: str, *, holders: Sequence[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.holders = tuple(holders)


class Forbidden(GraftworkError):
    """A policy does not allow it; `problems` says what is missing."""

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class RouteRefused(GraftworkError):
    """A rule of the route refuses this request; `status` is the rule's."""

    def __init__(self, message: str, *, status: int = 403) -> None:
        super().__init__(message)
        self.status = status


class Refused(GraftworkError):
    """An adapter or a base model cannot be served rightly, or a signature does not hold."""

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class Damaged(GraftworkError):
    """Stored bytes are missing or do not match their digest."""


class Unavailable(GraftworkError):
    """Not possible now; try again later."""

    def __init__(self, message: str = "", *, retry_after_s: int = 1) -> None:
        super().__init__(*([message] if message else []))
        self.retry_after_s = retry_after_s


class TooManyRequests(Unavailable):
    """You have your share of the queue or of the minute already; others go on."""


class QuotaExhausted(TooManyRequests):
    """You keep as many adapters or bytes as you may; delete some."""


class TimedOut(GraftworkError):
    """The answer was not complete in the time that a request may take."""


class GenerationFailed(GraftworkError):
    """This row failed while it was being generated."""


class UnreadableAnswer(GraftworkError):
    """What the model answered is not what the task promises; `text` is what it was."""

    def __init__(self, message: str = "", *, text: str = "") -> None:
        super().__init__(*([message] if message else []))
        self.text = text
