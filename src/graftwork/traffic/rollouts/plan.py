"""Plan: the steps of a rollout, one list whatever the strategy was; made of its document and never changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from graftwork.access.names import check_name
from graftwork.errors import InvalidRequest
from graftwork.protocol.arguments import GivenArgument
from graftwork.protocol.rollouts import (
    AnalysisPart,
    BlueGreenPart,
    CanaryPart,
    RolloutSpec,
    ShadowPart,
    SplitPart,
    StepPart,
)
from graftwork.traffic.gates.arguments import Arguments, given
from graftwork.traffic.split import shares

P = TypeVar("P", bound=BaseModel)
#: The arm of what the route meant before.
STABLE: Final = "stable"


@dataclass(frozen=True)
class SetWeight:
    """Each candidate's share of the keys, 0 to 1; the stable arm has the rest."""

    shares: Mapping[str, float]


@dataclass(frozen=True)
class SetMirror:
    """What share of requests a candidate gets a copy of, 0 to 1."""

    arm: str
    share: float


@dataclass(frozen=True)
class Pause:
    """So many seconds; None: until somebody resumes."""

    duration_s: float | None


@dataclass(frozen=True)
class Analysis:
    """By which template arms are judged; after `deadline_s` without a verdict a person is asked."""

    name: str
    args: Arguments = ()
    deadline_s: float | None = None
    revision: int | None = None  #: of the template; None until a rollout begins


@dataclass(frozen=True)
class Pin:
    """What an analysis means from the start of a rollout to its end: the template's revision, and all its arguments."""

    revision: int
    args: Arguments = ()


Step = SetWeight | SetMirror | Pause | Analysis


@dataclass(frozen=True)
class Plan:
    """What is to happen, in order; `winner` is the arm that the route means when it has."""

    route: str
    strategy: str
    arms: tuple[str, ...]  #: the candidates
    steps: tuple[Step, ...]
    background: Analysis | None  #: judged from the first weight on; a canary's last step waits for it to pass
    winner: str | None  #: None: the route means what it meant before, unless somebody promotes an arm

    @classmethod
    def of(cls, spec: RolloutSpec) -> Plan:
        """The plan of a document.

        Raises:
            InvalidRequest: an arm has no name of its own, or the strategy is not one, or not for so many.
        """
        arms = tuple(check_name(one.arm, what="arm") for one in spec.candidates)
        if STABLE in arms or len(set(arms)) != len(arms):
            raise InvalidRequest(
                f"Each candidate needs an arm name of its own, which is not {STABLE!r}.", field="spec.candidates.arm"
            )
        given = {name: part for name, part in spec.strategy if part is not None}
        if len(given) != 1:
            raise InvalidRequest(f"spec.strategy needs one of {', '.join(_MAKERS)}.", field="spec.strategy")
        ((name, part),) = given.items()
        if name != "split" and len(arms) != 1:
            raise InvalidRequest(
                f"There are {len(arms)} candidates; only the strategy split takes several.", field="spec.candidates"
            )
        steps, background, winner = _MAKERS[name](part, arms)
        return cls(spec.route, "blueGreen" if name == "blue_green" else name, arms, tuple(steps), background, winner)

    @property
    def analyses(self) -> tuple[Analysis, ...]:
        """All that are judged, each once."""
        background = [self.background] if self.background is not None else []
        own = [step for step in self.steps if isinstance(step, Analysis) and step is not self.background]
        return (*background, *own)


_Made = tuple[Iterator[Step], Analysis | None, str | None]


def _canary(part: CanaryPart, arms: tuple[str, ...]) -> _Made:
    background = _analysis(part.analysis)
    steps = [_step(step, arms[0]) for step in part.steps]
    # What is undecided must not become what everybody gets: it has to pass before the end.
    return iter([*steps, background] if background is not None else steps), background, arms[0]


def _step(step: StepPart, arm: str) -> Step:
    given = [value for _, value in step if value is not None]
    if len(given) != 1:
        raise InvalidRequest("A step is one of setWeight, setMirror, pause and analysis.", field="spec.strategy.steps")
    if step.set_weight is not None:
        return SetWeight({arm: step.set_weight / 100})
    if step.set_mirror is not None:
        return SetMirror(arm, step.set_mirror / 100)
    if step.pause is not None:
        return Pause(step.pause.duration)
    found = _analysis(step.analysis)
    assert found is not None, "one of the four is given"
    return found


def _split(part: SplitPart, arms: tuple[str, ...]) -> _Made:
    named = {STABLE, *arms}
    weights = dict.fromkeys(sorted(named), 1.0) if part.weights is None else dict(part.weights)
    if set(weights) != named:
        raise InvalidRequest(
            f"Weights are given for all arms or for none; these are {', '.join(sorted(named))}.",
            field="spec.strategy.split.weights",
        )
    found = shares(list(weights.items()))

    def steps() -> Iterator[Step]:
        yield SetWeight({arm: found[arm] for arm in arms})
        if part.duration is not None:
            yield Pause(part.duration)
        yield Pause(None)  # which arm it becomes is for somebody to say

    return steps(), _analysis(part.analysis), None


def _blue_green(part: BlueGreenPart, arms: tuple[str, ...]) -> _Made:
    before, after = _analysis(part.pre_promotion_analysis), _analysis(part.post_promotion_analysis)

    def steps() -> Iterator[Step]:
        if before is not None:
            yield before
        if not part.auto_promotion:
            yield Pause(None)
        yield SetWeight({arms[0]: 1.0})
        if after is not None:
            yield after
        yield Pause(part.scale_down_delay)

    return steps(), None, arms[0]


def _shadow(part: ShadowPart, arms: tuple[str, ...]) -> _Made:
    return iter((SetMirror(arms[0], part.mirror / 100), Pause(part.duration))), _analysis(part.analysis), None


def pinned(part: P, pin: Callable[[Analysis], Pin], place: str = "spec") -> P:
    """A part of the document in which every analysis, at whatever depth, says what it means from now on.

    Raises:
        InvalidRequest: as `pin` does, the field from the document's top on.
    """
    if isinstance(part, AnalysisPart):
        return part.model_copy(update=_pinned(part, pin, place))
    inner: dict[str, Any] = {}
    for name in part.model_fields_set:
        value, there = getattr(part, name), f"{place}.{to_camel(name)}"
        if isinstance(value, BaseModel):
            inner[name] = pinned(value, pin, there)
        elif isinstance(value, list):
            inner[name] = [
                pinned(one, pin, f"{there}.{at}") if isinstance(one, BaseModel) else one for at, one in enumerate(value)
            ]
    return part.model_copy(update=inner)


def _pinned(part: AnalysisPart, pin: Callable[[Analysis], Pin], place: str) -> dict[str, Any]:
    analysis = _analysis(part)
    assert analysis is not None, "it is given"
    try:
        found = pin(analysis)
    except InvalidRequest as error:
        field = place if error.field is None else f"{place}.{error.field}"
        raise InvalidRequest(f"{field}: {error.message}", field=field) from error
    args = [GivenArgument(name=name, value=value) for name, value in found.args]
    return {"revision": found.revision, **({"args": args} if args else {})}


def _analysis(part: AnalysisPart | None) -> Analysis | None:
    return None if part is None else Analysis(part.name, given(part.args), part.deadline, part.revision)


_MAKERS: dict[str, Callable[[Any, tuple[str, ...]], _Made]] = {
    "canary": _canary,
    "split": _split,
    "blue_green": _blue_green,
    "shadow": _shadow,
}
