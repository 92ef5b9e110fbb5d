"""How far a stream goes next, for every thing that can happen to its topics."""

from dataclasses import replace

import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.source.read_options import REPORT, ReadOptions
from queue_engine.lake.source.read_plan import plan_parts
from queue_engine.lake.source.record_columns import GONE, REPLACED, MissingRange
from queue_engine.lake.source.stream_plan import Offsets, Series, batch_ranges, next_offsets, series_of
from queue_engine.lake.source.wanted_range import WantedRange
from queue_engine.vocabulary.errors import OffsetBeyondEndError, OffsetGoneError, TopicMissingError, TopicReplacedError
from queue_engine.wire.topic_state import TopicState

URL = "http://127.0.0.1:4151"
OPTIONS = ReadOptions(URL, ("a", "b"))
A = TopicState(topic="a", number=1, id_base=100, oldest_offset=10, synced_offset=50, end_offset=60)
B = TopicState(topic="b", number=2, id_base=200, oldest_offset=0, synced_offset=5, end_offset=5)
STATES = {"a": A, "b": B}
RESERVED = 1 << 20
# After two kills: 10 messages, 5 and 7.
KILLED = TopicState(
    topic="a",
    number=1,
    id_base=100,
    oldest_offset=0,
    synced_offset=2 * RESERVED + 7,
    end_offset=2 * RESERVED + 7,
    ranges=((0, 10), (RESERVED, RESERVED + 5), (2 * RESERVED, 2 * RESERVED + 7)),
)
A_AGAIN = TopicState(topic="a", number=3, id_base=300, oldest_offset=2, synced_offset=7, end_offset=7)


REPORTING = replace(OPTIONS, on_gap=REPORT)


def after(
    start: Offsets, states: dict[str, TopicState], rows_max: int | None = None, options: ReadOptions = OPTIONS
) -> Offsets:
    return next_offsets(URL, start, states, options, rows_max)


def test_a_key_says_which_topic_it_is_of() -> None:
    assert series_of(Series("a.b-c_d#ephemeral", 7, 1 << 61).key) == Series("a.b-c_d#ephemeral", 7, 1 << 61)


def test_all_that_is_synced_is_read_and_nothing_beyond() -> None:
    assert after({"a/1/100": 10, "b/2/200": 0}, STATES) == {"a/1/100": 50, "b/2/200": 5}


def test_a_limit_is_shared_so_that_nobody_waits_for_who_has_more() -> None:
    start = {"a/1/100": 10, "b/2/200": 0}
    assert after(start, STATES, 20) == {"a/1/100": 25, "b/2/200": 5}
    assert after(start, STATES, 7) == {"a/1/100": 13, "b/2/200": 4}
    assert after(start, STATES, 1) == {"a/1/100": 10, "b/2/200": 1}
    assert after(start, STATES, 1000) == {"a/1/100": 50, "b/2/200": 5}


def test_a_limit_counts_messages_and_passes_over_offsets_that_were_never_used() -> None:
    states = {"a": KILLED, "b": B}
    assert after({"a/1/100": 8, "b/2/200": 5}, states, 4) == {"a/1/100": RESERVED + 2, "b/2/200": 5}
    assert after({"a/1/100": 10, "b/2/200": 5}, states, 1_000) == {"a/1/100": 2 * RESERVED + 7, "b/2/200": 5}
    # What the gap of another topic would be is no share of a limit.
    assert after({"a/1/100": 0, "b/2/200": 0}, states, 20) == {"a/1/100": RESERVED + 5, "b/2/200": 5}


def test_a_checkpoint_whose_batch_ends_between_messages_goes_on() -> None:
    # Written by an earlier version, which took 1,000 offsets of a gap.
    assert after({"a/1/100": 1_010, "b/2/200": 5}, {"a": KILLED, "b": B}, 3)["a/1/100"] == RESERVED + 3
    ranges, missing = batch_ranges(URL, {"a/1/100": 10}, {"a/1/100": 1_010}, {"a": KILLED}, OPTIONS)
    assert ([one.count for one in ranges], missing) == ([0], [])
    assert plan_parts(LogClient(URL), OPTIONS, ranges).parts == []


def test_a_batch_knows_which_of_its_offsets_have_no_messages() -> None:
    [wanted], missing = batch_ranges(URL, {"a/1/100": 8}, {"a/1/100": RESERVED + 2}, {"a": KILLED}, OPTIONS)
    assert wanted == WantedRange("a", 1, 100, 8, RESERVED + 2, ((10, RESERVED),))
    assert (wanted.count, missing) == (4, [])


def test_a_topic_that_was_deleted_stops_the_stream_by_name_and_number() -> None:
    start = {"a/1/100": 30, "b/2/200": 5}
    gone = r"topic a \(number 1\) at http://127.0.0.1:4151 was deleted"
    with pytest.raises(
        TopicMissingError, match=rf"^{gone}: its messages from offset 30 on were not read; on_gap=report"
    ):
        after(start, {"b": B})
    with pytest.raises(TopicMissingError, match=rf"^{gone}: 20 messages from offset 30 to 49 were not read, nor any"):
        next_offsets(URL, start, {"b": B}, OPTIONS, None, {"a/1/100": A})
    with pytest.raises(TopicMissingError, match=rf"^{gone}: all of it up to offset 50 was read, and no later"):
        next_offsets(URL, start | {"a/1/100": 50}, {"b": B}, OPTIONS, None, {"a/1/100": A})
    seen = replace(KILLED, ranges=((0, 10), (2 * RESERVED, 2 * RESERVED + 7)))
    with pytest.raises(TopicMissingError, match=rf"^{gone}: 7 messages from offset {RESERVED} to {2 * RESERVED + 6} "):
        next_offsets(URL, start | {"a/1/100": RESERVED}, {"b": B}, OPTIONS, None, {"a/1/100": seen})


def test_a_topic_that_was_made_anew_stops_the_stream_by_name_and_number() -> None:
    text = r"^topic a \(number 1\) at .* was deleted, and one with the number 3 was made: 20 messages from offset 30"
    with pytest.raises(TopicReplacedError, match=text):
        next_offsets(URL, {"a/1/100": 30}, {"a": A_AGAIN}, OPTIONS, None, {"a/1/100": A})


def test_a_batch_of_a_topic_that_was_deleted_meanwhile_stops_the_stream() -> None:
    start, end = {"a/1/100": 10}, {"a/1/100": 20}
    with pytest.raises(TopicMissingError, match=r"^topic a \(number 1\) .*: offsets 10 to 19 were not read, nor any"):
        batch_ranges(URL, start, end, {}, OPTIONS)
    with pytest.raises(TopicReplacedError, match=r"^topic a \(number 1\) .*: offsets 10 to 19 were not read, nor any"):
        batch_ranges(URL, start, end, {"a": A_AGAIN}, OPTIONS)


def test_with_report_a_topic_made_anew_is_a_new_series_that_is_written_down_before_it_is_read() -> None:
    states = {"a": A_AGAIN, "b": B}
    first = after({"a/1/100": 30, "b/2/200": 5}, states, options=REPORTING)
    assert first == {"a/3/300": 2, "b/2/200": 5}
    assert batch_ranges(URL, {"a/1/100": 30, "b/2/200": 5}, first, states, OPTIONS) == ([], [])
    assert after(first, states) == {"a/3/300": 7, "b/2/200": 5}


def test_with_report_a_topic_that_is_not_there_stays_where_it_was() -> None:
    start = {"a/1/100": 30, "b/2/200": 1}
    assert after(start, {"b": B}, options=REPORTING) == {"a/1/100": 30, "b/2/200": 5}


def test_an_offset_beyond_the_end_stops_the_stream() -> None:
    with pytest.raises(OffsetBeyondEndError, match=r"offset 61 of a at http://127.0.0.1:4151 is beyond its end, 60"):
        after({"a/1/100": 61, "b/2/200": 0}, STATES)
    with pytest.raises(OffsetBeyondEndError):
        batch_ranges(URL, {"a/1/100": 30}, {"a/1/100": 61}, STATES, OPTIONS)
    # Read before it was synced, by an engine that told so: there, and not to be read again.
    assert after({"a/1/100": 55, "b/2/200": 5}, STATES) == {"a/1/100": 55, "b/2/200": 5}


def test_messages_that_are_gone_stop_the_stream_unless_it_is_to_tell_of_them() -> None:
    start, end = {"a/1/100": 4}, {"a/1/100": 20}
    with pytest.raises(OffsetGoneError, match=r"offset 4 of a at .* is gone: the oldest is 10"):
        after(start, STATES)
    with pytest.raises(OffsetGoneError):
        batch_ranges(URL, start, end, STATES, OPTIONS)
    assert after(start, STATES, 30, REPORTING)["a/1/100"] == 40
    ranges = batch_ranges(URL, start, end, STATES, REPORTING)
    assert ranges == ([WantedRange("a", 1, 100, 10, 20)], [MissingRange("a", 1, 100, 4, 10, GONE)])
    ranges = batch_ranges(URL, start, {"a/1/100": 8}, STATES, REPORTING)
    assert ranges == ([], [MissingRange("a", 1, 100, 4, 8, GONE)])


def test_with_report_a_batch_of_a_topic_that_was_deleted_meanwhile_is_accounted_for() -> None:
    for states in ({"a": A_AGAIN}, {}):
        ranges = batch_ranges(URL, {"a/1/100": 10}, {"a/1/100": 20}, states, REPORTING)
        assert ranges == ([], [MissingRange("a", 1, 100, 10, 20, REPLACED)])
