"""When topics are archived: quiet ones together once a minute, busy ones earlier."""

from queue_engine.lake.archive.rounds import BUSY_MESSAGES, ROUND_S, ArchiveRounds
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.wire.cursor import CursorStats
from tests.support.clock import ManualClock


def cursor(topic: str, depth: int) -> CursorStats:
    return CursorStats("archive", topic, 1, 7, 0, depth, depth, 0, depth, 0, 0, 1, False)


def test_quiet_topics_wait_for_the_round_and_busy_ones_do_not() -> None:
    clock = ManualClock()
    rounds = ArchiveRounds(clock)
    quiet, busy, idle = cursor("quiet", 1), cursor("busy", BUSY_MESSAGES), cursor("idle", 0)
    assert rounds.due([idle]) == set(), "a round without work is none"
    assert rounds.due([quiet, idle]) == {"quiet"}
    assert rounds.due([quiet, busy, idle]) == {"busy"}
    clock.advance(ns=ROUND_S * NS_PER_S - 1)
    assert rounds.due([quiet]) == set()
    assert rounds.due([quiet], is_once=True) == {"quiet"}
    clock.advance(ns=ROUND_S * NS_PER_S)
    assert rounds.due([quiet, busy]) == {"quiet", "busy"}
