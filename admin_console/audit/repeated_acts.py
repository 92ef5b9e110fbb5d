"""The audit list's rows of repeated acts: one row counts many
(`queue_engine/service/act_file/repeated_acts.py`).

Beside failures and routine acts, looks are counted: of a user's looks in the console at messages of one topic or
channel the first is a row at once, further ones become one row a minute for as long as the user goes on; after a minute
without a look the next one is a row at once again. Each act of a person has a row of its own.

A row of counted looks has in `counts`: times, messages, first_ms and last_ms (Unix milliseconds of the first and the
last look that it counts) and, for looks in the console, first_offset and last_offset (least and greatest offset shown).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from admin_console.audit.engine_acts import row_of
from admin_console.audit.models import AuditRow, Phase, Verdict
from admin_console.audit.record import now_ms
from queue_engine.delivery.stats import ActRecord
from queue_engine.service.act_file.repeated_acts import (
    FAILURE,
    LOOK_ACTION,
    SEVERAL,
    RepeatedActs,
    RepeatLimits,
    Source,
    Window,
    limits_of,
    source_of,
)

NAMES_SHOWN = 10
LOOK = RepeatLimits(1, 1_000, 1_000, 60.0, "within a minute", goes_on=True)


@dataclass(slots=True)
class _Looks:
    """The messages that the counted looks of a window showed."""

    first_ms: int
    last_ms: int = 0
    message_count: int = 0
    first_offset: int | None = None
    last_offset: int = -1
    details: dict[str, None] = field(default_factory=dict)

    def add(self, at_ms: int, counts: Mapping[str, int], detail: str) -> None:
        self.last_ms = at_ms
        # The engine counts messages that an act is about as `depth`.
        self.message_count += counts.get("messages", counts.get("depth", 0))
        if (first := counts.get("first_offset")) is not None:
            self.first_offset = first if self.first_offset is None else min(self.first_offset, first)
            self.last_offset = max(self.last_offset, counts["last_offset"])
        if detail and len(self.details) <= NAMES_SHOWN:
            self.details[detail] = None

    def counts(self) -> dict[str, int]:
        found = {"messages": self.message_count, "first_ms": self.first_ms, "last_ms": self.last_ms}
        if self.first_offset is not None:
            found |= {"first_offset": self.first_offset, "last_offset": self.last_offset}
        return found

    def times(self) -> str:
        """For a sentence: when the first and the last look were."""
        first, last = (datetime.fromtimestamp(at_ms / 1000, UTC) for at_ms in (self.first_ms, self.last_ms))
        return f"{first:%Y-%m-%d %H:%M:%S} UTC to {last:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(slots=True)
class _Digest:
    """The content of a window's row about counted acts. names: users, topics and channels that were tried.
    actors: users of the console, or the names of tokens; "" for none. claim: of all acts; "" where they differ."""

    last: ActRecord | AuditRow | None = None
    looks: _Looks | None = None
    names: dict[str, None] = field(default_factory=dict)
    actors: dict[str, None] = field(default_factory=dict)
    claim: str = ""

    def add(self, act: ActRecord | AuditRow, kind: RepeatLimits) -> None:
        claim = act.on_behalf_of if isinstance(act, ActRecord) else ""
        self.claim = claim if self.last is None or claim == self.claim else ""
        self.last = act
        if act.action == LOOK_ACTION and kind is not FAILURE:
            at_ms = act.at_ms or now_ms()
            if self.looks is None:
                self.looks = _Looks(at_ms)
            if isinstance(act, AuditRow):
                self.looks.add(at_ms, act.counts, act.detail)
            elif act.outcome is not None:
                self.looks.add(at_ms, {"depth": act.outcome.depth}, "")
        name = (f"{act.topic}/{act.channel}" if act.channel else act.topic) if act.topic else act.actor
        if name and len(self.names) <= NAMES_SHOWN:
            self.names[name] = None
        if len(self.actors) <= NAMES_SHOWN:
            self.actors[act.actor] = None


class RepeatedRows:
    """The repeated acts of the audit list, guarded by the lock of the writer that owns them. Times are monotonic
    seconds."""

    def __init__(self) -> None:
        self._acts = RepeatedActs(_Digest)

    def take(self, act: ActRecord | AuditRow, now_s: float) -> bool:
        """Count the act if it is a repeat; whether it was counted. If not, the act gets a row of its own."""
        if isinstance(act, AuditRow):
            kind, address, who, cluster = _kind_of_row(act), act.address, act.actor, act.cluster
        else:
            kind, address, who, cluster = limits_of(act), act.remote_address, "", ""
        if kind is None:
            return False
        source = Source(
            act.via, address, act.action, act.topic, act.channel, f"{who if kind is LOOK else ''} {cluster}".strip()
        )
        digest = self._acts.count(kind, source, now_s)
        if digest is not None:
            digest.add(act, kind)
        return digest is not None

    def close_windows(self, now_s: float, *, is_last: bool = False) -> list[AuditRow]:
        """Close the windows that are over, all with is_last; their rows."""
        return [_row_of_window(window) for window in self._acts.closed(now_s, is_last=is_last)]


def _kind_of_row(row: AuditRow) -> RepeatLimits | None:
    if row.phase == Phase.REFUSED or (row.phase == Phase.EVENT and row.verdict == Verdict.FAILED):
        return FAILURE
    return LOOK if row.phase == Phase.EVENT and row.action == LOOK_ACTION else None


def _row_of_window(window: Window[_Digest]) -> AuditRow:
    digest = window.digest
    last = digest.last
    assert last is not None
    is_one_actor = len(digest.actors) <= 1
    # It is a claim of the actor.
    claim = digest.claim if is_one_actor else ""
    row = last if isinstance(last, AuditRow) else row_of(replace(last, on_behalf_of=claim))
    names = list(digest.names)
    message = f"{window.counted:,} more {window.kind.words}"
    if digest.looks is not None:
        message += f", {digest.looks.times()}"
    if window.kind is FAILURE and names:
        message += f", for {_some(names)}"
    if not is_one_actor and digest.actors.keys() != digest.names.keys():
        nameless = "no token" if isinstance(last, ActRecord) else "no user"
        message += f", by {_some([actor or nameless for actor in digest.actors])}"
    message += f". The last: {row.message}" if row.message else "."
    counts = {"times": window.counted}
    detail = row.detail
    if digest.looks is not None:
        counts |= digest.looks.counts()
        detail = _some(list(digest.looks.details))[:200] or detail
    is_one_name = len(names) <= 1
    return AuditRow(
        act_id=row.act_id,
        phase=row.phase,
        at_ms=now_ms(),
        actor=row.actor if is_one_actor else "",
        role=row.role if is_one_actor else "",
        address=source_of(row.address)[:64] if window.is_one_source else SEVERAL,
        via=row.via,
        action=row.action,
        topic=row.topic if is_one_name else "",
        channel=row.channel if is_one_name else "",
        detail=detail if is_one_name or claim else "",
        verdict=row.verdict,
        message=message[:500],
        counts=counts,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (" and others" if len(names) > NAMES_SHOWN else "")
