"""A topic's state as it crosses the border, byte for byte."""

from dataclasses import replace

from queue_engine.wire.topic_state import TopicState, read_topic_state

STATE = TopicState(
    topic="orders",
    number=7,
    id_base=912,
    storage="log",
    oldest_offset=0,
    synced_offset=40,
    end_offset=45,
    ranges=((0, 12), (20, 40)),
    ranges_end=40,
)
WIRE = (
    b'{"topic":"orders","number":7,"id_base":912,"storage":"log","oldest_offset":0,"synced_offset":40,"end_offset":45,'
    b'"ranges":[[0,12],[20,40]],"ranges_end":40}'
)


def test_a_state_is_these_bytes() -> None:
    assert STATE.encoded() == WIRE
    assert read_topic_state(WIRE) == STATE


def test_the_offset_of_a_time_is_there_only_where_it_was_requested() -> None:
    state = replace(STATE, time_offset=0)
    assert state.encoded() == WIRE[:-1] + b',"time_offset":0}'
    assert read_topic_state(state.encoded()) == state


def test_an_older_engine_answers_without_ranges_and_a_newer_one_may_add_fields() -> None:
    older = WIRE[: WIRE.index(b',"ranges"')] + b"}"
    assert read_topic_state(older) == replace(STATE, ranges=None, ranges_end=0)
    assert read_topic_state(WIRE[:-1] + b',"more":1}') == STATE
