"""advance: what a rollout does next, and what people may tell it; values in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from graftwork.errors import Conflict, InvalidRequest
from graftwork.protocol.rollouts import Status
from graftwork.traffic.resize import resize
from graftwork.traffic.rollouts.judged import Judged
from graftwork.traffic.rollouts.plan import STABLE, Analysis, Pause, Plan, SetMirror, SetWeight
from graftwork.traffic.rollouts.state import ALL_STABLE, Held, State
from graftwork.traffic.split import Slice
from graftwork.traffic.verdict import Verdict


@dataclass(frozen=True)
class Evidence:
    """What is known when a rollout is looked at; verdicts by arm. What is left out is not known yet."""

    ready: bool = False  #: whether all candidates are warm
    broken: str | None = None  #: why a candidate cannot answer at all
    moved: str | None = None  #: what the route was made to mean meanwhile, by somebody else
    background: Mapping[str, Verdict] = field(default_factory=dict)
    step: int = -1  #: of which step the next are
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)

    def beside(self, plan: Plan, state: State) -> Judged | None:
        """What is said of the arms all the time; None while that has not begun, or where nothing is."""
        if plan.background is None or state.started_at is None:
            return None
        return Judged(plan.background, state.started_at, self.background)

    def within(self, plan: Plan, state: State) -> Judged | None:
        """What is said of the arms in the step that lasts; None where that is no analysis."""
        step = plan.steps[state.step] if state.step < len(plan.steps) else None
        if not isinstance(step, Analysis):
            return None
        since = state.started_at if step is plan.background and state.started_at is not None else state.entered_at
        return Judged(step, since, self.verdicts if self.step == state.step else {})


@dataclass(frozen=True)
class Action:
    """One change, as it is recorded; `promote` is the arm that the route means from now on."""

    kind: str
    before: State
    after: State
    promote: str | None = None
    judged: Judged | None = None  #: what gates said, where they decided it


Outcome = tuple[State, tuple[Action, ...]]


def begin(now: datetime, reason: str) -> State:
    """A rollout that waits for its candidates to be warm."""
    return State("warming", now, reason=reason)


def advance(plan: Plan, state: State, now: datetime, evidence: Evidence) -> Outcome:
    """Everything that is to be done by now, in order."""
    actions: list[Action] = []
    while (action := _next(plan, state, now, evidence)) is not None:
        actions.append(action)
        state = action.after
    return state, tuple(actions)


def pause(state: State, now: datetime, reason: str) -> Outcome:
    """Keep everything as it is; nothing happens to one that somebody paused already. Raises Conflict at its end."""
    _check_live(state, "paused")
    if state.held == "asked":
        return state, ()
    held_at = state.held_at if state.status == "paused" else now
    return _told("paused", state, replace(state, status="paused", held="asked", held_at=held_at, reason=reason))


def resume(state: State, now: datetime, reason: str) -> Outcome:
    """Go on: a hold lasts as long as it had to when it was paused; who resumes what waits for him decides it.

    Raises Conflict where it is not paused.
    """
    if state.status != "paused":
        raise Conflict(f"The rollout is not paused but {state.status}.")
    status: Status = "warming" if state.started_at is None else "progressing"
    after = replace(state, status=status, held=None, held_at=None, reason=reason)
    if state.held in ("step", "undecided"):
        return _told("resumed", state, replace(after, step=state.step + 1, entered_at=now))
    assert state.held_at is not None, "it is paused"
    return _told("resumed", state, replace(after, entered_at=state.entered_at + max(now - state.held_at, timedelta())))


def promote(plan: Plan, state: State, now: datetime, reason: str, arm: str | None = None) -> Outcome:
    """Let the route mean a candidate now, whatever is left to do.

    Raises:
        InvalidRequest: there are several, and none or none of them is named.
        Conflict: it has ended.
    """
    if state.promoted is not None and arm in (None, state.promoted):
        return state, ()
    _check_live(state, "promoted")
    chosen = arm if arm is not None else plan.arms[0] if len(plan.arms) == 1 else None
    if chosen not in plan.arms:
        raise InvalidRequest(f"Say which arm: {', '.join(plan.arms)}.", field="arm")
    return _promoted(state, now, chosen, reason)


def abort(state: State, now: datetime, reason: str) -> Outcome:
    """Everybody is answered by the stable version again; nothing happens to one that was aborted.

    Raises Conflict where it has ended otherwise.
    """
    if state.status == "aborted":
        return state, ()
    _check_live(state, "aborted")
    return _told("aborted", state, _over(state, "aborted", now, reason))


def supersede(state: State, now: datetime, reason: str) -> Outcome:
    """Another one has taken its place."""
    return _told("superseded", state, _over(state, "superseded", now, reason))


def forbid(state: State, now: datetime, reason: str) -> Outcome:
    """What comes next is not allowed: wait for a person, who may mend that and resume."""
    return _told("held", state, replace(state, status="paused", held="forbidden", held_at=now, reason=reason))


def _next(plan: Plan, state: State, now: datetime, evidence: Evidence) -> Action | None:
    if state.ended:
        return None
    if evidence.moved is not None:
        return Action("superseded", state, _over(state, "superseded", now, evidence.moved))
    if evidence.broken is not None:
        return Action("aborted", state, _over(state, "aborted", now, evidence.broken))
    if (beside := evidence.beside(plan, state)) is not None and beside.failed is not None:
        return _failed(state, now, beside)
    if state.status == "paused":
        return None
    if state.status == "warming":
        if not evidence.ready:
            return None
        after = replace(state, status="progressing", started_at=now, entered_at=now, reason="The candidates are warm.")
        return Action("warmed", state, after)
    if state.step == len(plan.steps):
        if plan.winner is None:
            return Action("completed", state, _over(state, "completed", now, _done(plan, beside)))
        _, (action,) = _promoted(state, now, plan.winner, "All steps are done.")
        return action
    return _step(plan, state, now, evidence)


def _done(plan: Plan, beside: Judged | None) -> str:
    """That an end came by itself says nothing of what was to be found out; that is said where it was not."""
    if beside is None or beside.passed(plan.arms):
        return "All steps are done."
    return f"All steps are done, and {beside.analysis.name} stayed undecided. {beside.said}".rstrip()


def _step(plan: Plan, state: State, now: datetime, evidence: Evidence) -> Action | None:
    done = replace(state, step=state.step + 1, entered_at=now)
    match plan.steps[state.step]:
        case SetWeight(shares):
            told = ", ".join(f"{arm} to {100 * share:g} %" for arm, share in sorted(shares.items()))
            slices = resize(state.slices, shares, stable=STABLE)
            return Action("weight_set", state, replace(done, slices=slices, reason=f"Set {told}."))
        case SetMirror(arm, share):
            mirror = (arm, share) if share else None
            return Action(
                "mirror_set", state, replace(done, mirror=mirror, reason=f"Mirror {100 * share:g} % to {arm}.")
            )
        case Pause(None):
            return _held(state, now, "step", "The plan says to wait here until somebody resumes.")
        case Pause(duration_s):
            assert duration_s is not None, "the other case"
            if now < state.entered_at + timedelta(seconds=duration_s):
                return None
            return Action("waited", state, replace(done, reason=f"Waited {duration_s:g} s."))
        case Analysis():
            judged = evidence.within(plan, state)
            assert judged is not None, "it is an analysis"
            return _judged(plan, state, done, now, judged)


def _judged(plan: Plan, state: State, done: State, now: datetime, judged: Judged) -> Action | None:
    name, deadline_s = judged.analysis.name, judged.analysis.deadline_s
    if judged.failed is not None:
        return _failed(state, now, judged)
    if judged.passed(plan.arms):
        after = replace(done, reason=f"{name} passed. {judged.said}")
        return Action("passed", state, after, judged=judged)
    if deadline_s is not None and now >= state.entered_at + timedelta(seconds=deadline_s):
        reason = f"{name} is undecided after {deadline_s:g} s. {judged.said}".rstrip()
        return replace(_held(state, now, "undecided", reason), judged=judged)
    return None


def _failed(state: State, now: datetime, judged: Judged) -> Action:
    assert judged.failed is not None, "whoever asks has looked"
    arm, one = judged.failed
    reason = f"{arm} failed{f' {one.metric}' if one.metric else ''}: {one.reason}"
    return Action("aborted", state, _over(state, "aborted", now, reason), judged=judged)


def _promoted(state: State, now: datetime, arm: str, reason: str) -> Outcome:
    after = replace(_over(state, "promoted", now, reason), slices=(Slice(arm, 0.0, 1.0),))
    return after, (Action("promoted", state, after, promote=arm),)


def _over(state: State, status: Status, now: datetime, reason: str) -> State:
    """An end: the stable arm answers all, unless another is promoted."""
    return replace(
        state,
        status=status,
        entered_at=now,
        slices=ALL_STABLE,
        mirror=None,
        held=None,
        held_at=None,
        reason=reason,
    )


def _held(state: State, now: datetime, held: Held, reason: str) -> Action:
    return Action("held", state, replace(state, status="paused", held=held, held_at=now, reason=reason))


def _told(kind: str, before: State, after: State) -> Outcome:
    return after, (Action(kind, before, after),)


def _check_live(state: State, what: str) -> None:
    if state.ended:
        raise Conflict(
            f"The rollout was {state.status}, and cannot be {what} any more. `graftwork rollback NAME` takes a version "
            "back, and `graftwork rollout start` begins anew."
        )
