"""Messages are read, looked up by key and searched alike at the engine of this process and at a remote Penstock; an
nsqd shows none, with the reason."""

from itertools import count

import pytest

from admin_console.gateway.gateway import MessageQuery, ReadRefusedError, Target
from tests.cluster.contract.conftest import NodeAtWork
from tests.support.waiting import wait_for

_NAMES = (f"reads{number}" for number in count())


@pytest.fixture
def topic(node: NodeAtWork) -> str:
    """With the channel billing, and five messages: the keys of the second and the fourth are k."""
    name = next(_NAMES)
    node.hold(name, "billing")
    for number in range(5):
        key = "&key=k" if number in (1, 3) and not node.is_nsqd else ""
        node.api.http("POST", f"/pub?topic={name}{key}", b"body %d" % number)
    wait_for("the messages in the channel", lambda: node.depth(name, "billing") == 5)
    return name


READS = {"list_messages", "find_key", "search_messages", "read_messages"}


def test_an_nsqd_has_no_read_of_messages_and_a_penstock_has_all(node: NodeAtWork) -> None:
    assert READS & node.messages.capabilities == (set() if node.is_nsqd else READS)


def test_a_topic_is_read_by_offset_time_and_from_its_end(node: NodeAtWork, topic: str) -> None:
    source = node.messages
    if node.is_nsqd:
        with pytest.raises(ReadRefusedError, match="Nothing was read of"):
            source.messages(topic, "", Target(offset=0), 2)
        return
    page = source.messages(topic, "", Target(offset=2), 2)
    assert [(one.offset, one.body, one.key) for one in page.messages] == [(2, b"body 2", b""), (3, b"body 3", b"k")]
    assert (page.oldest_offset, page.end_offset, page.next_offset, page.earlier_offset) == (0, 5, 4, 0)
    end = source.messages(topic, "", Target(word="end"), 2)
    assert (end.messages, end.earlier_offset) == ((), 3)
    (last,) = source.messages(topic, "", Target(offset=4), 1).messages
    later = source.messages(topic, "", Target(time_ns=last.time_ns + 10**9), 5)
    assert (later.messages, later.end_offset) == ((), 5)
    peeked = source.messages(topic, "billing", None, 2)
    assert [one.body for one in peeked.messages] == [b"body 0", b"body 1"]
    with pytest.raises(ReadRefusedError, match=r"offset 99 of .* is beyond its end, 5"):
        source.messages(topic, "", Target(offset=99), 1)


def test_a_key_is_found_the_newest_first_and_goes_on_behind_a_page(node: NodeAtWork, topic: str) -> None:
    source = node.messages
    if node.is_nsqd:
        with pytest.raises(ReadRefusedError, match="Nothing was read of"):
            source.find_key(topic, b"k", 1)
        return
    first = source.find_key(topic, b"k", 1)
    assert [one.body for one in first.page.messages] == [b"body 3"]
    assert first.next_before is not None
    older = source.find_key(topic, b"k", 1, before=first.next_before)
    assert [one.body for one in older.page.messages] == [b"body 1"]
    assert source.find_key(topic, b"other", 1).page.messages == ()


def test_a_search_ends_with_its_hits_and_one_that_is_gone_is_refused(node: NodeAtWork, topic: str) -> None:
    source = node.messages
    if node.is_nsqd:
        with pytest.raises(ReadRefusedError, match="Nothing was read of"):
            source.start_search(topic, "billing", "body")
        return
    begun = source.start_search(topic, "billing", "body 4", first_offset=0, user="ada")
    assert (begun.topic, begun.channel, begun.text) == (topic, "billing", "body 4")
    wait_for("the search's end", lambda: source.search_state(begun.search_id).status == "at_end")
    found = source.search_state(begun.search_id)
    assert (found.message_count, found.message_total, found.end_offset) == (5, 5, 5)
    assert [(hit.row.offset, hit.at, hit.around) for hit in found.hits] == [(4, 0, b"body 4")]
    row = source.message(topic, "billing", message_id=found.hits[0].row.message_id)
    listed = source.message_rows(topic, "billing", MessageQuery(first_offset=4, preview_bytes=10))
    assert (row.body, [one.message_id for one in listed.rows]) == (b"body 4", [row.row.message_id])
    assert source.cancel_search(begun.search_id).search_id == begun.search_id
    with pytest.raises(ReadRefusedError, match="Nothing was read"):
        source.search_state("never")
