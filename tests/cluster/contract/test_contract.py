"""What an act does and answers on every kind of node: the engine of this process, a remote Penstock, and nsqds."""

from itertools import count

import pytest

from admin_console.gateway.gateway import DONE, FAILED, ReadRefusedError
from queue_engine.engine.acts.log_acts import Target
from queue_engine.vocabulary.acts.table import ACTS, kinds_of
from tests.cluster.contract.conftest import NodeAtWork
from tests.support.waiting import wait_for

_NAMES = (f"orders{number}" for number in count())


@pytest.fixture
def topic() -> str:
    """The name of one that no other test has."""
    return next(_NAMES)


def test_creating_says_whether_it_was_there(node: NodeAtWork, topic: str) -> None:
    for channel in ("", "billing"):
        action, name = ("create_channel", f"{topic}/billing") if channel else ("create_topic", topic)
        made, again = node.act(action, topic, channel), node.act(action, topic, channel)
        assert (made.verdict, made.created, made.message) == (DONE, True, f"Created {name}.")
        assert (again.verdict, again.created) == (DONE, False)
        assert again.message == f"{name} was there already; nothing was changed."
    assert node.topics()[topic] == ["billing"]


def test_pausing_and_resuming_change_the_state_and_count_what_waits(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing", messages=3)
    paused = node.act("pause_channel", topic, "billing", by="ada", reason="deploy")
    assert (paused.verdict, paused.created, paused.counts) == (DONE, True, {"depth": 3})
    assert paused.message.startswith(f"Paused {topic}/billing: its consumers get nothing until it is resumed.")
    assert node.api.channel_stats(topic, "billing")["paused"] is True
    resumed = node.act("unpause_channel", topic, "billing")
    assert (resumed.verdict, resumed.message) == (DONE, f"Resumed {topic}/billing: its depth was 3.")
    assert node.act("unpause_channel", topic, "billing").message.endswith("was resumed already; nothing was changed.")
    assert node.api.channel_stats(topic, "billing")["paused"] is False
    node.act("pause_topic", topic, by="ada")
    assert node.api.topic_stats(topic)["paused"] is True
    node.act("unpause_topic", topic)
    assert node.api.topic_stats(topic)["paused"] is False


def test_emptying_removes_the_messages_and_counts_them(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing", "archive", messages=4)
    emptied = node.act("empty_channel", topic, "billing", by="ada", expected=4)
    assert (emptied.verdict, emptied.counts) == (DONE, {"depth": 4})
    assert emptied.message == f"Emptied {topic}/billing: removed 4 messages."
    assert (node.depth(topic, "billing"), node.depth(topic, "archive")) == (0, 4)
    own = node.act("empty_topic", topic, by="ada", channels_too=False, expected=0)
    assert (own.verdict, own.counts, node.depth(topic, "archive")) == (DONE, {}, 4)
    both = node.act("empty_topic", topic, by="ada", channels_too=True, expected=4)
    assert (both.verdict, both.counts["depth"], node.depth(topic, "archive")) == (DONE, 4, 0)


def test_deleting_counts_what_went_and_a_second_one_finds_nothing(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing", "archive", messages=2)
    gone = node.act("delete_channel", topic, "billing", by="ada", expected=2)
    assert (gone.verdict, gone.counts) == (DONE, {"depth": 2})
    again = node.act("delete_channel", topic, "billing", by="ada", expected=2)
    assert (again.verdict, again.code) == (FAILED, "CHANNEL_NOT_FOUND")
    deleted = node.act("delete_topic", topic, by="ada", expected=2)
    assert (deleted.verdict, deleted.counts) == (DONE, {"depth": 2, "channels": 1})
    assert deleted.message == f"Deleted {topic} with 1 channel: removed 2 messages."
    assert topic not in node.topics()
    assert node.act("delete_topic", topic, by="ada", expected=2).code == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize("action", ["pause_channel", "unpause_channel", "empty_channel"])
def test_an_act_on_what_is_not_there_is_refused_and_makes_nothing(action: str, node: NodeAtWork, topic: str) -> None:
    details = {"by": "ada"} if action != "unpause_channel" else {}
    missing = node.act(action, topic, "billing", **details)
    assert (missing.verdict, missing.code) == (FAILED, "TOPIC_NOT_FOUND")
    assert missing.message.startswith(f"Nothing was done to {topic}/billing: ")
    node.hold(topic)
    assert node.act(action, topic, "billing", **details).code == "CHANNEL_NOT_FOUND"
    assert node.topics()[topic] == []


def test_far_more_messages_than_were_counted_are_not_removed(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing")
    node.api.http("POST", f"/mpub?topic={topic}", b"m\n" * 1_100)
    wait_for("all of them in the channel", lambda: node.depth(topic, "billing") == 1_100)
    for action, channel in (("empty_channel", "billing"), ("delete_channel", "billing"), ("delete_topic", "")):
        refused = node.act(action, topic, channel, by="ada", expected=5)
        assert (refused.verdict, refused.code) == (FAILED, "COUNTS_CHANGED"), action
        assert "1,100" in refused.message
    assert node.depth(topic, "billing") == 1_100


def test_a_message_is_published(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing")
    published = node.act("publish", topic, bodies=[b"hello"], defer_ms=0)
    assert (published.verdict, published.message) == (DONE, f"Published 1 message of 5 bytes to {topic}.")
    assert node.depth(topic, "billing") == 1


def test_what_an_nsqd_can_not_do_is_refused_with_its_reason_and_a_penstock_does_it(
    node: NodeAtWork, topic: str
) -> None:
    node.hold(topic, "billing", messages=2)
    on_messages = {"ids": ["0123456789abcdef"]}
    orders = {
        "requeue_channel": {},
        "release_deferred": {},
        "retry_channel": {},
        "set_max_attempts": {"max_attempts": 7},
        "redrive_channel": {"rate": 5, "keeps_attempts": False, "by": "ada"},
        "cancel_redrive": {},
        "rewind_channel": {"target": Target(word="end")},
        "finish_messages": on_messages,
        "quarantine_messages": on_messages,
    }
    for action, details in orders.items():
        result = node.act(action, topic, "billing", **details)
        if node.is_nsqd:
            assert (result.verdict, result.code) == (FAILED, "NOT_SUPPORTED"), action
            reason = f"{node.gateway.name} is an nsqd and {kinds_of(action).nsqd}"
            assert result.message == f"Nothing was done to {topic}/billing: {reason}."
            assert node.gateway.why_not(action) == reason
        else:
            assert result.verdict == DONE, (action, result)
            assert node.gateway.why_not(action) == ""
    # The rewind to the end skipped them.
    assert node.depth(topic, "billing") == (2 if node.is_nsqd else 0)


def test_a_rewind_is_previewed_and_goes_exactly_there(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing", messages=3)
    if node.is_nsqd:
        with pytest.raises(ReadRefusedError, match="is an nsqd and keeps no past messages"):
            node.gateway.begin_seek_preview(topic, "billing", Target(word="start"))
        return
    assert node.act("finish_messages", topic, "billing", offsets=[0, 2]).verdict == DONE
    preview = node.gateway.begin_seek_preview(topic, "billing", Target(word="start"))()
    assert (preview.offset, preview.oldest_offset, preview.end_offset) == (0, 0, 3)
    assert (preview.depth, preview.depth_now, node.depth(topic, "billing")) == (3, 1, 1)
    with pytest.raises(ReadRefusedError, match=r"offset 4 of .* is beyond its end, 3"):
        node.gateway.begin_seek_preview(topic, "billing", Target(offset=4))()
    onward = {"target": Target(offset=1), "keep_finished": True, "is_exact": False}
    assert node.act("rewind_channel", topic, "billing", **onward).verdict == DONE
    assert node.depth(topic, "billing") == 1, "2 was finished and stays so"
    back = {"target": Target(offset=1), "keep_finished": False, "is_exact": True}
    assert node.act("rewind_channel", topic, "billing", **back).verdict == DONE
    assert node.depth(topic, "billing") == 2


def test_single_messages_have_a_result_each(node: NodeAtWork, topic: str) -> None:
    node.hold(topic, "billing", messages=3)
    if node.is_nsqd:
        assert node.act("finish_messages", topic, "billing", ids=["0123456789abcdef"]).code == "NOT_SUPPORTED"
        return
    first = node.act("finish_messages", topic, "billing", offsets=[0])
    assert first.verdict == DONE
    assert [(one.code, one.was) for one in first.results] == [("", "waiting")]
    assert first.message == f"Finished 1 message of {topic}/billing."
    missing = node.act("finish_messages", topic, "billing", offsets=[99])
    assert [bool(one.code) for one in missing.results] == [True]
    assert node.depth(topic, "billing") == 2


def test_each_act_of_pages_is_in_nsqds_api_or_has_a_reason_why_not() -> None:
    in_nsqd = {
        f"{verb}_{scope}"
        for verb in ("create", "delete", "empty", "pause", "unpause")
        for scope in ("topic", "channel")
    } | {"publish"}
    on_nodes = {name for name, act in ACTS.items() if act.http is not None} | {"publish"}
    assert {name for name in on_nodes if not kinds_of(name).nsqd} == in_nsqd
