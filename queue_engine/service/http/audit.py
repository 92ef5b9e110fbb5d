"""Every act that comes over HTTP is told of, those that were refused included. What changes something is done only once
a row about it is kept."""

import logging
import uuid
from collections.abc import Callable

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.admission.act_gate import ActGate
from queue_engine.service.http.connection import Answer, RequestHead, internal_error
from queue_engine.service.http.refusals import Refusal

logger = logging.getLogger(__name__)

_NO_ROOM = (
    "nothing was done: the audit list can't be written, and memory keeps no more rows for it. Free space on the "
    "console's disk and try again"
)


class HttpAudit:
    """Tells of acts."""

    def __init__(self, on_act: Callable[[ActRecord], None] | None, gate: ActGate | None = None) -> None:
        """on_act: told of every act; None: nobody is. gate: asked before; None: every act may be done."""
        self._on_act = on_act
        self._gate = gate

    def tell(self, record: ActRecord) -> None:
        if self._on_act is not None:
            self._on_act(record)

    def refuse(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        refusal: Refusal,
        answer: Answer,
        act_id: str = "",
    ) -> None:
        """Answer the act with the refusal, and tell of it. act_id: of an act that was begun."""
        error = f"{refusal.word}: {refusal.detail}" if refusal.detail else refusal.word
        self.tell(ActRecord(action, topic, channel, head.remote_address, error, None, act_id=act_id))
        answer(refusal.response())

    @property
    def asks_first(self) -> bool:
        """Whether an act may have to be refused for want of its row."""
        return self._gate is not None

    def require_room(self) -> None:
        """For what has one row, when it is over. Raises Refusal when that would be lost."""
        if self._gate is not None and not self._gate.has_room:
            raise not_audited()

    def begin(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        answer: Answer,
        act: Callable[[str], None],
    ) -> None:
        """Call `act` with the act's id once a row about it is kept, or answer that it is not done."""
        if self._gate is None:
            act("")
            return
        act_id = uuid.uuid4().hex

        def kept(is_kept: bool) -> None:
            if not is_kept:
                answer(not_audited().response())
                return
            try:
                act(act_id)
            except Exception:
                # The edge of the loop: a fault of ours costs this request, not the server.
                logger.exception("act failed action=%s topic=%s channel=%s", action, topic, channel)
                answer(internal_error())

        self._gate.begin(ActRecord(action, topic, channel, head.remote_address, "", None, act_id=act_id), kept)


def not_audited() -> Refusal:
    return Refusal(503, "NOT_AUDITED", _NO_ROOM)
