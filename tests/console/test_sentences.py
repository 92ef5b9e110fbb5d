"""Counts of messages as sentences have them."""

import pytest

from admin_console.gateway.sentences import merged_sentences, message_counts


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
