"""Reports every act over HTTP to the audit list, refused ones included.

An act that changes something begins only after the audit list has stored a row about it.
"""

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.admission.act_gate import ActGate
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response, internal_error
from queue_engine.service.http.refusals import Refusal, act_refusal
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.ticket import Ticket

logger = logging.getLogger(__name__)

# Characters of a client's text for a name; names have at most 64.
_NAME_SHOWN_MAX = 80
_NO_ROOM = (
    "nothing was done: the audit list can't be written, and memory has no room for more rows. Free space on the "
    "console's disk and try again"
)

# The answer (or its maker, of one that needs the outcome), the ticket that has to be done before it is sent, and the
# outcome and details for the audit list.
Done = tuple[Response | Callable[[], Response], Ticket, Outcome, Mapping[str, Any]]


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

    def report(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        outcome: Outcome,
        details: Mapping[str, Any],
        act_id: str = "",
    ) -> None:
        """Report an act that is done. act_id: of one that has begun."""
        self.tell(
            ActRecord(
                action,
                topic,
                channel,
                head.remote_address,
                "",
                outcome,
                details=details,
                act_id=act_id,
                actor=head.actor,
                on_behalf_of=head.on_behalf_of,
            )
        )

    def report_read(self, head: RequestHead, topic: str, channel: str, message_count: int) -> None:
        """Report a look at messages."""
        self.report(head, "read_messages", topic, channel, Outcome(depth=message_count), {})

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
        self.tell(
            ActRecord(
                action,
                topic,
                channel,
                head.remote_address,
                error,
                None,
                act_id=act_id,
                actor=head.actor,
                on_behalf_of=head.on_behalf_of,
            )
        )
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
        act: Callable[[], Done],
    ) -> None:
        """Store a row about the act, then carry it out; refuse the request when the row can't be stored."""
        if self._gate is None:
            self.carry_out(head, action, topic, channel, answer, act)
            return
        act_id = uuid.uuid4().hex

        def stored(is_stored: bool) -> None:
            if not is_stored:
                answer(not_audited().response())
                return
            try:
                self.carry_out(head, action, topic, channel, answer, act, act_id)
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
                on_behalf_of=head.on_behalf_of,
                is_intent=True,
            ),
            stored,
        )

    def carry_out(
        self,
        head: RequestHead,
        action: str,
        topic: str,
        channel: str,
        answer: Answer,
        act: Callable[[], Done],
        act_id: str = "",
    ) -> None:
        """Do an act, then answer and report it when it is durable; a Refusal or PenstockError is its answer."""
        try:
            response, ticket, outcome, details = act()
        except Refusal as refusal:
            self.refuse(head, action, topic, channel, refusal, answer, act_id)
            return
        except PenstockError as exc:
            self.refuse(head, action, topic, channel, act_refusal(exc), answer, act_id)
            return

        def settled(done: Ticket) -> None:
            if done.error is not None:
                self.refuse(head, action, topic, channel, act_refusal(done.error), answer, act_id)
                return
            self.report(head, action, topic, channel, outcome, details, act_id)
            answer(response() if callable(response) else response)

        ticket.when_done(settled)


def not_audited() -> Refusal:
    return Refusal(503, "NOT_AUDITED", _NO_ROOM)
