"""Leases: a reader on the same machine reads whole segments itself, and nothing goes while it holds them."""

from pathlib import Path

import pytest

from queue_engine.engine.acts.log_acts import log_store_of
from queue_engine.engine.engine import Engine
from queue_engine.storage.commit_log.record import decode_record, parse_header
from queue_engine.storage.fetch.log_leases import Lease
from queue_engine.vocabulary.errors import InvalidStorageError, LeaseNotFoundError, LimitError, TopicNotFoundError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.engine import Client, make_engine, settle

SEGMENT_BYTES = 1 << 16
BODY = 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def started(path: Path, clock: ManualClock) -> Engine:
    # Without the trash, which would keep what is emptied here so that nothing but a lease does.
    sizes = {"log_segment_bytes": SEGMENT_BYTES, "max_msg_size": 2_000, "max_body_size": 4_000}
    return make_engine(path, clock, **sizes, trash_age_ms=0)


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> Engine:
    engine = started(tmp_path, clock)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.acts.create_topic("other")
    settle(engine)
    return engine


def publish(engine: Engine, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        engine.publish("orders", [b"%d " % number + b"x" * BODY])
        engine.publish("other", [b"y" * BODY])
        settle(engine)


def read_bodies(lease: Lease) -> list[bytes]:
    """What a reader of the files finds, from the lease alone."""
    found: list[bytes] = []
    for segment in lease.segments:
        data = Path(segment.path).read_bytes()
        at = segment.first_byte
        while at < segment.end_byte:
            header = parse_header(data, at, position=segment.position + at, salt=segment.salt)
            assert header is not None, at
            record = data[at : at + header.size]
            if header.topic_number == lease.reader.topic_number:
                read = decode_record(record, position=segment.position + at, salt=segment.salt)
                assert not read.damaged
                for index in range(header.count):
                    if segment.first_offset <= header.first_offset + index < segment.next_offset:
                        found.append(read.body_at(index))
            at += header.size
    return found


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(body.split()[0]) for body in bodies]


def consume(engine: Engine, count: int) -> None:
    client = Client(engine, "orders", "billing", ready=2_000)
    settle(engine)
    assert len(client.sink.received) == count
    client.finish(*[one.id for one in client.sink.received])


def test_a_lease_names_the_files_and_a_reader_finds_every_message(engine: Engine) -> None:
    publish(engine, 100)
    lease, ticket = engine.log.lease("orders", 0, ttl_ms=60_000)
    assert ticket.done
    assert ticket.error is None
    assert (lease.topic, lease.first_offset) == ("orders", 0)
    assert 50 < lease.next_offset < lease.end_offset == 100
    assert numbers(read_bodies(lease)) == list(range(lease.next_offset))
    assert [one.next_offset for one in lease.segments[:-1]] == [one.first_offset for one in lease.segments[1:]]
    later, _ = engine.log.lease("orders", 33, ttl_ms=60_000, segments_max=1)
    assert len(later.segments) == 1
    assert numbers(read_bodies(later)) == list(range(33, later.next_offset))
    # The rest is in no complete segment.
    frames = engine.log.read_frames("orders", lease.next_offset, 1 << 20)
    assert (frames.count, frames.next_offset) == (100 - lease.next_offset, 100)
    end, _ = engine.log.lease("orders", 100, ttl_ms=60_000)
    assert (end.segments, end.next_offset) == ((), 100)


def needed_by_leases_alone(engine: Engine) -> None:
    """All 100 messages are consumed, and no other topic keeps a segment."""
    consume(engine, 100)
    engine.acts.delete_topic("other")
    settle(engine)


def oldest_offset(engine: Engine) -> int:
    return log_store_of(engine.catalog.topic("orders")).oldest_offset


def test_what_is_leased_stays_though_it_is_consumed_until_it_is_given_back(engine: Engine, clock: ManualClock) -> None:
    publish(engine, 100)
    lease, _ = engine.log.lease("orders", 20, ttl_ms=3_600_000)
    needed_by_leases_alone(engine)
    for _ in range(3):
        clock.advance(ms=2_000)
        engine.tick()
        settle(engine)
    assert oldest_offset(engine) <= 20
    assert numbers(read_bodies(lease)) == list(range(20, lease.next_offset))
    moved, _ = engine.log.renew_lease(lease.reader.name, ttl_ms=60_000, offset=lease.next_offset)
    assert moved.reader.name == lease.reader.name
    clock.advance(ms=2_000)
    engine.tick()
    assert oldest_offset(engine) > 20
    with pytest.raises(LimitError, match="offset 20 of orders is gone: the oldest is"):
        engine.log.lease("orders", 20, ttl_ms=60_000)
    engine.log.release_lease(lease.reader.name)
    with pytest.raises(LeaseNotFoundError):
        engine.log.renew_lease(lease.reader.name, ttl_ms=60_000)


def test_a_lease_ends_by_itself(engine: Engine, clock: ManualClock) -> None:
    publish(engine, 100)
    lease, _ = engine.log.lease("orders", 0, ttl_ms=5_000)
    needed_by_leases_alone(engine)
    clock.advance(ms=4_000)
    engine.log.renew_lease(lease.reader.name, ttl_ms=5_000)
    clock.advance(ms=4_999)
    engine.tick()
    assert oldest_offset(engine) == 0
    clock.advance(ms=1_001)
    engine.tick()
    assert oldest_offset(engine) > 0
    with pytest.raises(LeaseNotFoundError, match=f"lease {lease.reader.name} has expired"):
        engine.log.renew_lease(lease.reader.name, ttl_ms=5_000)


def test_leases_are_renewed_together_or_not_at_all(engine: Engine, clock: ManualClock) -> None:
    publish(engine, 100)
    one, other = (engine.log.lease("orders", offset, ttl_ms=5_000)[0].reader.name for offset in (0, 10))
    clock.advance(ms=4_000)
    with pytest.raises(LeaseNotFoundError, match="lease lost has expired"):
        engine.log.renew_leases([one, "lost", other], ttl_ms=60_000)
    engine.log.renew_leases([other], ttl_ms=5_000)
    clock.advance(ms=1_500)
    with pytest.raises(LeaseNotFoundError, match=f"lease {one} has expired"):
        engine.log.renew_leases([other, one], ttl_ms=60_000)
    clock.advance(ms=3_000)
    written: list[Ticket] = []
    engine.log.renew_leases([other], ttl_ms=5_000).when_done(written.append)
    settle(engine)
    assert [ticket.error for ticket in written] == [None]
    leases = log_store_of(engine.catalog.topic("orders")).readers.leases
    assert [(lease.name, lease.offset) for lease in leases.all()] == [(one, 0), (other, 10)]
    engine.tick()
    assert [(lease.name, lease.offset) for lease in leases.all()] == [(other, 10)]


def test_a_lease_outlives_a_restart(engine: Engine, tmp_path: Path, clock: ManualClock) -> None:
    publish(engine, 100)
    lease, _ = engine.log.lease("orders", 10, ttl_ms=3_600_000)
    consume(engine, 100)
    engine.close()
    engine = started(tmp_path, clock)
    clock.advance(ms=5_000)
    engine.tick()
    again, _ = engine.log.renew_lease(lease.reader.name, ttl_ms=60_000)
    assert (again.first_offset, again.topic, again.id_base) == (10, "orders", lease.id_base)
    assert numbers(read_bodies(again)) == list(range(10, again.next_offset))
    engine.close()


def test_a_deleted_topic_takes_its_leases_with_it(engine: Engine) -> None:
    publish(engine, 10)
    lease, _ = engine.log.lease("orders", 0, ttl_ms=60_000)
    engine.acts.delete_topic("orders")
    engine.acts.create_topic("orders")
    settle(engine)
    with pytest.raises(LeaseNotFoundError):
        engine.log.renew_lease(lease.reader.name, ttl_ms=60_000)


def test_what_can_not_be_leased_is_refused(engine: Engine) -> None:
    engine.acts.create_topic("old", storage="diskqueue")
    with pytest.raises(TopicNotFoundError):
        engine.log.lease("none", 0, ttl_ms=60_000)
    with pytest.raises(InvalidStorageError, match="old has storage kind diskqueue"):
        engine.log.lease("old", 0, ttl_ms=60_000)
    with pytest.raises(LimitError, match="offset 1 of orders is beyond its end, 0"):
        engine.log.lease("orders", 1, ttl_ms=60_000)
    with pytest.raises(LeaseNotFoundError):
        engine.log.release_lease("lease-none")
