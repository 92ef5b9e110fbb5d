"""Reads one task's parts: turns files or pages into Arrow batches, and notes the messages that are missing."""

import logging
import mmap
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.missing_report import report_missing
from queue_engine.lake.source.read_options import FILES, REPORT, ReadOptions
from queue_engine.lake.source.read_plan import LEASE_TTL_MS, HttpPart, LeasedRange, Part, SegmentPart
from queue_engine.lake.source.record_columns import MissingRange, RecordColumns
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.storage.commit_log.segment import HEAD_BYTES_MAX, parse_segment_head
from queue_engine.storage.disk.no_follow import open_no_follow
from queue_engine.vocabulary.clock import NS_PER_MS, Clock, SystemClock
from queue_engine.vocabulary.errors import (
    OffsetBeyondEndError,
    OffsetGoneError,
    SegmentMissingError,
    TopicReplacedError,
)

logger = logging.getLogger(__name__)

# Leases are renewed when a quarter of their time is over.
_RENEW_AFTER_NS = LEASE_TTL_MS * NS_PER_MS // 4
# Of one request: large, because a request costs something, and small, because it occupies the engine.
_PAGE_BYTES_MAX = 4 << 20
_PAGE_BYTES_MIN = 64 << 10
_MESSAGE_BYTES_GUESS = 1 << 10


class PartReader:
    """Reads parts of a plan, one after the other.

    missing: of all parts read so far. Every offset of a part's ranges either comes in a batch or is in `missing`. When
    a lease is lost on the way, the read ends with LeaseLostError, because the engine may have removed the files.
    """

    def __init__(self, client: LogClient, options: ReadOptions, clock: Clock | None = None) -> None:
        self.missing: list[MissingRange] = []
        self._client = client
        self._options = options
        self._clock = clock or SystemClock()
        self._renewed_ns = 0

    def read(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """The parts' rows, each part's in log order. Raises LeaseLostError, TopicReplacedError, OffsetBeyondEndError,
        OffsetGoneError, SegmentMissingError and EngineUnreachableError."""
        self._renewed_ns = self._clock.monotonic_ns()
        leases = {lease for part in parts for lease in _leases(part) if lease}
        reports: list[tuple[list[WantedRange], list[MissingRange]]] = []
        for part in parts:
            before = len(self.missing)
            batches = self._pages(part.wanted) if isinstance(part, HttpPart) else self._file(part)
            for batch in batches:
                if self._clock.monotonic_ns() - self._renewed_ns > _RENEW_AFTER_NS:
                    self._renew(leases)
                yield batch
            if len(self.missing) > before:
                ranges = [part.wanted] if isinstance(part, HttpPart) else [one.wanted for one in part.ranges]
                reports.append((ranges, self.missing[before:]))
        # A lease that can be renewed at the end was never lost.
        self._renew(leases)
        for ranges, missing in reports:
            report_missing(ranges, missing, self._options.damage_path)

    def _renew(self, leases: set[str]) -> None:
        if leases:
            self._client.renew(sorted(leases), ttl_ms=LEASE_TTL_MS)
        self._renewed_ns = self._clock.monotonic_ns()

    # From a file.

    def _file(self, part: SegmentPart) -> Iterator[pa.RecordBatch]:
        mapped = self._mapped(part)
        if mapped is None:
            for one in part.ranges:
                yield from self._pages(one.wanted)
            return
        data, records_at = mapped
        columns = self._columns(part.ranges)
        yield from columns.segment(
            data,
            position=part.position,
            salt=part.salt,
            records_at=records_at,
            first_bytes=[one.first_byte for one in part.ranges],
            end_byte=part.end_byte,
        )
        columns.finish()
        self.missing += columns.missing

    def _mapped(self, part: SegmentPart) -> tuple[mmap.mmap, int] | None:
        """The file, and the place of its first record; None when this machine has no such file and HTTP may be used."""
        try:
            with os.fdopen(open_no_follow(part.path, os.O_RDONLY), "rb") as file:
                found = parse_segment_head(file.read(HEAD_BYTES_MAX), part.path)
                if found is not None and (found.position, found.salt) == (part.position, part.salt):
                    data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    data.madvise(mmap.MADV_SEQUENTIAL)
                    return data, found.head_bytes
                reason = "is not the segment that was leased"
        except OSError as exc:
            reason = exc.strerror or str(exc)
        if self._options.read_from == FILES:
            raise SegmentMissingError(f"{part.path} of {self._client.url}: {reason}; read_from=auto would use HTTP")
        logger.info("reading over HTTP instead: %s: %s", part.path, reason)
        return None

    def _columns(self, ranges: tuple[LeasedRange, ...]) -> RecordColumns:
        return RecordColumns(
            [one.wanted for one in ranges],
            rows_max=self._options.batch_rows_max,
            bytes_max=self._options.batch_bytes_max,
        )

    # Over HTTP.

    def _pages(self, wanted: WantedRange) -> Iterator[pa.RecordBatch]:
        columns = self._columns((LeasedRange(wanted, "", 0),))
        place = f"{wanted.topic} at {self._client.url}"
        message_bytes = _MESSAGE_BYTES_GUESS
        while left := wanted.count_from(columns.expected(wanted.number)):
            offset = wanted.next_message(columns.expected(wanted.number))
            guess = message_bytes * left * 5 // 4
            page = self._client.records(
                wanted.topic, offset, max_bytes=min(max(guess, _PAGE_BYTES_MIN), _PAGE_BYTES_MAX)
            )
            if (page.number, page.id_base) != (wanted.number, wanted.id_base):
                raise TopicReplacedError(
                    f"{place} is number {page.number}, id base {page.id_base}, and was {wanted.number},"
                    f" {wanted.id_base}: it was deleted and created again while offset {offset} was read"
                )
            if page.oldest_offset > offset and self._options.on_gap != REPORT:
                raise OffsetGoneError(f"offset {offset} of {place} is gone: the oldest is {page.oldest_offset}")
            if page.next_offset <= offset:
                raise OffsetBeyondEndError(
                    f"offset {offset} of {place} is beyond the synced offset, {page.synced_offset}, and was there"
                    " before"
                )
            yield from columns.page(page.data)
            columns.passed(wanted.number, page.next_offset)
            # An overestimate when the page ends behind the range: the loop ends then.
            message_bytes = max(len(page.data) // max(left - wanted.count_from(page.next_offset), 1), 1)
        columns.finish()
        self.missing += columns.missing


def read_parts(parts: Sequence[Part], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Read a task's parts over a connection of its own."""
    with LogClient(options.url, options.token) as client:
        yield from PartReader(client, options).read(parts)


def _leases(part: Part) -> list[str]:
    return [part.lease] if isinstance(part, HttpPart) else [one.lease for one in part.ranges]
