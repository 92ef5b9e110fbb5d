"""Reports every act over HTTP to the audit list, refused ones included.

An act that changes something begins only after the audit list has stored a row about it.
"""

import logging
import uuid
from collections.abc import Callable
from dataclasses import replace

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.admission.act_gate import ActGate
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, internal_error
from queue_engine.service.http.refusals import Refusal

logger = logging.getLogger(__name__)

# Characters of a client's text for a name; names have at most 64.
_NAME_SHOWN_MAX = 80
_NO_ROOM = (
    "nothing was done: the audit list can't be written, and memory has no room for more rows. Free space on the "
    "console's disk and try again"
)


class HttpAudit:
    """Reports acts to the audit list, and asks it before an act."""

    def __init__(self, on_act: Callable[[ActRecord], None] | None, gate: ActGate | None = None) -> None:
        """on_act: gets every act; None for no audit list. gate: stores a row before each act; None for no such row."""
        self._on_act = on_act
        self._gate = gate

    def tell(self, record: ActRecord) -> None:
        if self._on_act is None:
            return
        if max(len(record.topic), len(record.channel)) > _NAME_SHOWN_MAX:
            record = replace(record, topic=record.topic[:_NAME_SHOWN_MAX], channel=record.channel[:_NAME_SHOWN_MAX])
        try:
            self._on_act(record)
        except Exception:
            # The act is done, and its client waits for the answer.
            logger.exception(
                "act not audited action=%s topic=%s channel=%s", record.action, record.topic, record.channel
            )

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
        """Answer an act with a refusal, and report it. act_id: of an act that has begun."""
        error = f"{refusal.word}: {refusal.detail}" if refusal.detail else refusal.word
        self.tell(ActRecord(action, topic, channel, head.remote_address, error, None, act_id=act_id, actor=head.actor))
        answer(refusal.response())

    @property
    def asks_first(self) -> bool:
        """Whether an act needs a stored row before it begins."""
        return self._gate is not None

    def require_room(self) -> None:
        """Check that there is room for a row which follows the request. Raises Refusal when there is none."""
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
        """Store a row about the act, then call `act` with its id; refuse the request when the row can't be stored."""
        if self._gate is None:
            act("")
            return
        act_id = uuid.uuid4().hex

        def stored(is_stored: bool) -> None:
            if not is_stored:
                answer(not_audited().response())
                return
            try:
                act(act_id)
            except Exception:
                # The loop's edge: a bug fails this request, not the server.
                logger.exception("act failed action=%s topic=%s channel=%s", action, topic, channel)
                answer(internal_error())

        self._gate.begin(
            ActRecord(
                action,
                topic,
                channel,
                head.remote_address,
                "",
                None,
                act_id=act_id,
                actor=head.actor,
                is_intent=True,
            ),
            stored,
        )


def not_audited() -> Refusal:
    return Refusal(503, "NOT_AUDITED", _NO_ROOM)
