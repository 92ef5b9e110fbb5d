"""From findings to states: a state begins after its finding has been seen for some seconds, and ends after it has been
gone for some. So a figure that swings around a limit makes no page that changes every second. A state that an act has
ended is no swing: it ends at once.

Pure: time is the snapshots' own (Unix seconds).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from admin_console.diagnosis.finding import Finding

# Snapshots come every second. After a longer silence a finding begins anew.
SILENCE_S_MAX = 10


class State(NamedTuple):
    """A finding through time, as the last snapshot showed it.

    begun_s: the first snapshot that showed it; seen_s: the last one. is_in_force: whether it has lasted long enough.
    """

    finding: Finding
    begun_s: float
    seen_s: float
    is_in_force: bool


def advance(
    states: Sequence[State],
    found: Sequence[Finding],
    now_s: float,
    is_over: Callable[[Finding], bool] = lambda finding: False,
) -> tuple[State, ...]:
    """The states after a snapshot taken at `now_s`, which showed `found`. is_over: whether a finding that is gone can't
    come back, so that its state ends at once."""
    if not states and not found:
        return ()
    previous = {state.finding.kind: state for state in states}
    current: list[State] = []
    for finding in found:
        before = previous.pop(finding.kind, None)
        if before is None or not (before.is_in_force or 0 <= now_s - before.seen_s <= SILENCE_S_MAX):
            before = State(finding, now_s, now_s, is_in_force=False)
        has_held = now_s - before.begun_s >= finding.kind.begins_after_s
        current.append(State(finding, before.begun_s, now_s, before.is_in_force or has_held))
    if any(finding.kind.ends_others for finding in found):
        previous.clear()
    for gone in previous.values():
        # A clock set back must not make a state last for ever.
        lasts = gone.is_in_force and 0 <= now_s - gone.seen_s < gone.finding.kind.ends_after_s
        if lasts and not is_over(gone.finding):
            # Only its sentences are needed from now on: the figures of a whole topic would stay with it.
            gone.finding.settle()
            current.append(gone)
    return tuple(current)


def in_force(states: Sequence[State]) -> tuple[State, ...]:
    return tuple(state for state in states if state.is_in_force)
