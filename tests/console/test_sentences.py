"""Counts of messages as sentences have them."""

import pytest

from admin_console.gateway.sentences import merged_sentences, message_counts, not_listed


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((0, 0, 0, 0), ""),
        ((12_304, 0, 0, 0), "12,304 messages"),
        ((0, 17, 0, 0), "17 messages in flight"),
        ((0, 0, 1, 0), "1 deferred message"),
        ((0, 0, 0, 230), "230 quarantined messages"),
        ((1, 0, 2, 0), "3 messages (depth 1, 2 deferred)"),
        ((0, 1, 2, 3), "6 messages (1 in flight, 2 deferred, 3 quarantined)"),
    ],
)
def test_each_kind_is_named_in_the_order_of_english(counts: tuple[int, int, int, int], told: str) -> None:
    assert message_counts(*counts) == told


def test_reasons_that_begin_alike_are_one_sentence() -> None:
    old = "topic old has storage kind diskqueue"
    reasons = (f"{old}: only the log keeps keys", f"{old}: it is read once", f"{old}: it is read once", "")
    assert merged_sentences((*reasons, "This server can't rewind.")) == [
        "Topic old has storage kind diskqueue: only the log keeps keys; it is read once.",
        "This server can't rewind.",
    ]


def test_nodes_that_list_nothing_for_the_same_reason_are_one_sentence_that_names_each_once() -> None:
    nodes = [
        ("d:1", "d:1 refused it: EXITING"),
        ("d:10", "d:10 refused it: EXITING"),
        ("e:1", "e:1 is an nsqd and shows no messages"),
        ("f:1", "no answer"),
        ("g:1", "no answer"),
    ]
    assert not_listed(nodes) == [
        "Not listed here: d:1 and d:10: each refused it: EXITING.",
        "Not listed here: e:1 is an nsqd and shows no messages.",
        "Not listed here: f:1 and g:1: no answer.",
    ]
    assert not_listed(nodes[:1]) == ["Not listed here: d:1 refused it: EXITING."]
