"""A thread for answers that take long to make or to compress: `/metrics`, and large answers that go as gzip.

The engine's thread makes the snapshot; this thread makes the text of it, asks the disk and compresses, and the loop
sends the result. One answer is made after the other, so that many scrapes at once cost one processor at most.
"""

import asyncio
import gzip
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response, error_response, internal_error

logger = logging.getLogger(__name__)

# A shorter answer fits into one packet or two as it is.
COMPRESSED_BYTES_MIN = 2 << 10
# Level 6 takes three times as long for a tenth less.
_LEVEL = 1


class AnswerThread:
    """Belongs to the loop's thread. The thread begins with the first answer."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "penstock-answers")

    def make(self, head: RequestHead, make: Callable[[], Response], answer: Answer) -> None:
        """Call `make` on the thread, and answer with its result, as gzip if the client accepts that."""
        loop = asyncio.get_running_loop()

        def work() -> Response:
            try:
                return compressed(head, make())
            except Exception:
                logger.exception("answer not made path=%s", head.path)
                return internal_error()

        def done(future: "Future[Response]") -> None:
            try:
                loop.call_soon_threadsafe(answer, future.result())
            except RuntimeError:
                pass  # the loop has ended, and the connection with it

        try:
            self._threads.submit(work).add_done_callback(done)
        except RuntimeError:
            answer(error_response(503, "EXITING"))  # closed: the server stops

    def compress(self, head: RequestHead, response: Response, answer: Answer) -> None:
        """Answer with a response that is ready: at once, or compressed on the thread."""
        if wants_gzip(head, response):
            self.make(head, lambda: response, answer)
        else:
            answer(response)

    def close(self) -> None:
        """Take no more work; answers that are being made are still given."""
        self._threads.shutdown(wait=False)


def compressed(head: RequestHead, response: Response) -> Response:
    """The response as gzip where that is worth it and the client accepts it; else as it is."""
    if not wants_gzip(head, response):
        return response
    headers = (*response.headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    return replace(response, body=gzip.compress(response.body, _LEVEL, mtime=0), headers=headers)


def wants_gzip(head: RequestHead, response: Response) -> bool:
    return len(response.body) >= COMPRESSED_BYTES_MIN and _accepts_gzip(head)


def _accepts_gzip(head: RequestHead) -> bool:
    """Whether Accept-Encoding has gzip, and not with a weight of 0."""
    value = b",".join(value for name, value in head.headers if name == b"accept-encoding")
    weights: dict[str, bool] = {}
    for part in value.decode("latin-1").lower().split(","):
        coding, _, rest = part.partition(";")
        name, _, weight = rest.partition("=")
        weights[coding.strip()] = not (name.strip() == "q" and _is_zero(weight))
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", False)))


def _is_zero(weight: str) -> bool:
    try:
        return float(weight) == 0
    except ValueError:
        return False
