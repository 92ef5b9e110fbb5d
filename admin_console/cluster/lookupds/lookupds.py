"""The lists of nsqlookupds, and acts there: read in the background, so that no page waits for one that is silent."""

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.lookupds.lookupd_answers import LookupdOutcome, LookupdReport
from admin_console.cluster.reading.nodes import NotCallingError
from queue_engine.vocabulary.errors import PenstockError

if TYPE_CHECKING:
    from admin_console.cluster.calls.node_http import NodeHttp

logger = logging.getLogger(__name__)

T = TypeVar("T")

# A page waits so long for the first answer, and uses an answer that is not older.
PAGE_WAIT_S = 0.5
FRESH_S = 2.0
# A question waits so long for answers of its own, and an act for its end: each call has its deadline.
QUESTION_WAIT_S = 5.0
ACT_WAIT_S = 15.0


class Caller(Protocol):
    """Runs calls on the cluster's thread (`Cluster.call`)."""

    def __call__(self, work: "Callable[[NodeHttp], Coroutine[Any, Any, T]]") -> Future[T]: ...


@dataclass(slots=True)
class _Entry:
    report: LookupdReport | None = None
    read_s: float = 0.0  # monotonic, when its newest report came
    reading: "Future[tuple[LookupdReport, float]] | None" = None


class Lookupds:
    """Any thread; nothing here blocks longer than its wait."""

    def __init__(self, call: Caller) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._entries: dict[HttpAddress, _Entry] = {}

    def reports(self, addresses: Sequence[HttpAddress], *, is_new: bool = False) -> list[LookupdReport | None]:
        """One for each address; None for one that has not answered yet. Those of other addresses are dropped. is_new:
        only answers to calls that begin now, within QUESTION_WAIT_S; the report of another has an error."""
        with self._lock:
            self._entries = {address: self._entries.get(address) or _Entry() for address in addresses}
            entries = list(self._entries.items())
            for address, entry in entries:
                _settle(address, entry)
                if is_new or (entry.reading is None and time.monotonic() - entry.read_s > FRESH_S):
                    self._begin(address, entry)
            reading = {entry.reading for _, entry in entries if entry.reading is not None}
        wait(reading, QUESTION_WAIT_S if is_new else PAGE_WAIT_S)
        with self._lock:
            for address, entry in entries:
                _settle(address, entry)
            return [
                entry.report
                if entry.reading is None or not is_new
                else _failed(address, entry.report, f"{address} did not answer in time")
                for address, entry in entries
            ]

    def act(self, addresses: Sequence[HttpAddress], path: str, query: Mapping[str, str]) -> tuple[LookupdOutcome, ...]:
        """Do one act at each of them, all at once."""
        from admin_console.cluster.lookupds.lookupd_calls import act_at

        def begin(address: HttpAddress) -> "Future[LookupdOutcome]":
            return self._call(lambda http: act_at(http, address, path, query))

        try:
            begun = [(address, begin(address)) for address in addresses]
        except NotCallingError as exc:
            return tuple(LookupdOutcome(address, str(exc).rstrip(".")) for address in addresses)
        wait([future for _, future in begun], ACT_WAIT_S)
        self.expire()
        return tuple(_outcome(address, future) for address, future in begun)

    def expire(self) -> None:
        """Read all anew for the next page: an act changed something there."""
        with self._lock:
            for entry in self._entries.values():
                entry.reading, entry.read_s = None, -FRESH_S

    def _begin(self, address: HttpAddress, entry: _Entry) -> None:
        # Here: a server whose page Lookup is not opened needs no HTTP client.
        from admin_console.cluster.lookupds.lookupd_calls import timed_report

        try:
            entry.reading = self._call(lambda http: timed_report(http, address))
        except NotCallingError as exc:
            entry.report = _failed(address, entry.report, str(exc).rstrip("."))


def _settle(address: HttpAddress, entry: _Entry) -> None:
    """Take the answer, if it came."""
    if entry.reading is None or not entry.reading.done():
        return
    try:
        entry.report, entry.read_s = entry.reading.result()
    except (PenstockError, CancelledError) as exc:
        entry.report, entry.read_s = _failed(address, entry.report, str(exc) or "the server stops"), time.monotonic()
    except Exception as exc:
        # A fault of ours with this one's answer: the others are shown.
        logger.exception("the answer of nsqlookupd %s can't be taken in", address)
        entry.report, entry.read_s = _failed(address, entry.report, type(exc).__name__), time.monotonic()
    entry.reading = None


def _failed(address: HttpAddress, before: LookupdReport | None, error: str) -> LookupdReport:
    last = before or LookupdReport(address)
    return replace(last, error=error, failing_since_ms=last.failing_since_ms or time.time_ns() // 1_000_000)


def _outcome(address: HttpAddress, future: "Future[LookupdOutcome]") -> LookupdOutcome:
    if not future.done() or future.cancelled():
        return LookupdOutcome(address, f"{address} did not answer in time", may_be_done=True)
    return future.result()
