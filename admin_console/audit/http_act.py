"""An act over the HTTP API or of a client, as the engine hands it over: cheap to make on the engine's thread."""

import uuid
from dataclasses import dataclass, field

from admin_console.audit.models import VIA_HTTP_API, AuditRow, Phase, Verdict
from admin_console.audit.record import FOREIGN_REQUEST, now_ms


@dataclass(frozen=True, slots=True)
class HttpAct:
    """One act that the engine's HTTP API did or refused, that a client did by publishing or subscribing, or that the
    engine did by itself at its time.

    message: the sentence, or the error's code. is_change: False where nothing was changed, such as a look.
    """

    action: str
    topic: str
    channel: str
    address: str  # HOST:PORT
    is_done: bool
    message: str
    counts: dict[str, int]
    at_ms: int = field(default_factory=now_ms)
    via: str = VIA_HTTP_API
    is_change: bool = True
    act_id: str = ""  # joins an act's intent and its result; "" for what is one row
    is_intent: bool = False
    actor: str = ""  # the name of the token; "" without one
    reason: str = ""

    def row(self) -> AuditRow:
        return AuditRow(
            act_id=self.act_id or uuid.uuid4().hex,
            phase=Phase.INTENT if self.is_intent else Phase.RESULT if self.act_id else Phase.EVENT,
            at_ms=self.at_ms,
            actor=self.actor[:64],
            address=self.address[:64],
            via=self.via,
            action=self.action[:32],
            topic=self.topic[:64],
            channel=self.channel[:64],
            reason=self.reason[:200],
            verdict=self._verdict,
            message=self.message[:500],
            counts=self.counts,
        )

    @property
    def _verdict(self) -> Verdict:
        if self.is_intent:
            return Verdict.PENDING
        if self.is_done:
            return Verdict.DONE
        return Verdict.REFUSED if self.action == FOREIGN_REQUEST else Verdict.FAILED
