"""Every act that comes over HTTP is told of, those that were refused included."""

from collections.abc import Callable

from queue_engine.delivery.stats import ActRecord
from queue_engine.service.http_connection import Answer, RequestHead
from queue_engine.service.http_refusals import Refusal


class HttpAudit:
    """Tells of acts."""

    def __init__(self, on_act: Callable[[ActRecord], None] | None) -> None:
        """on_act: told of every act; None: nobody is."""
        self._on_act = on_act

    def tell(self, record: ActRecord) -> None:
        if self._on_act is not None:
            self._on_act(record)

    def refuse(
        self, head: RequestHead, action: str, topic: str, channel: str, refusal: Refusal, answer: Answer
    ) -> None:
        """Answer the act with the refusal, and tell of it."""
        error = f"{refusal.word}: {refusal.detail}" if refusal.detail else refusal.word
        self.tell(ActRecord(action, topic, channel, head.remote_address, error, None))
        answer(refusal.response())
