"""The log store over restarts and kills: what was settled stays so, and everything else comes again."""

import random
import shutil
from pathlib import Path

import pytest

from queue_engine.storage.log_store.log_topic import TopicOpening
from queue_engine.vocabulary.run import Run
from tests.support.stores.log_store import Bench, bodies, everything, take


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_was_settled_stays_so_and_the_rest_comes_again_with_its_attempts(bench: Bench, is_killed: bool) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.topic.open_channel("other", 8)
    bench.publish(*[b"%d" % number for number in range(8)])
    run = take(backlog, 5)
    backlog.settle([run.ids[0], run.ids[3]])
    backlog.give_back(run, [run.ids[4]], counted=True)
    assert bodies(take(backlog, 3)) == [b"5", b"6", b"7"], "what comes back stands behind what waits"
    assert bodies(take(backlog, 1)) == [b"4"]
    bench.log.end_turn()
    if not is_killed:
        bench.log.close()
    opening = bench.restart({7: 0, 8: 0})
    assert opening.log.damages == []
    assert (opening.unknown_records, opening.progress.dropped) == (0, 0)
    backlog = bench.topic.open_channel("c", 7)
    other = bench.topic.open_channel("other", 8)
    assert (backlog.depth, other.depth, bench.topic.depth) == (6, 8, 0)
    found: dict[bytes, int] = {}
    while backlog.depth:
        run = take(backlog)
        for index, body in enumerate(bodies(run)):
            found[body] = int.from_bytes(run.frame_at(index)[16:18], "big")
    assert found == {b"1": 2, b"2": 2, b"4": 3, b"5": 2, b"6": 2, b"7": 2}


def test_deferred_messages_are_still_deferred_and_released_ones_are_not(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"at publish", due_ms=10_000)
    bench.publish(b"plain", b"by requeue")
    run = take(backlog)
    backlog.settle(run.ids[:1])
    backlog.give_back(run, run.ids[1:], counted=True, due_ns=bench.clock.monotonic_ns() + 20_000_000_000)
    bench.log.end_turn()
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (0, 2)
    bench.clock.advance(ms=10_000)
    backlog.release_due(bench.clock.monotonic_ns(), 10)
    assert bodies(take(backlog)) == [b"at publish"]
    backlog.release_deferred()
    bench.log.end_turn()
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (2, 0)
    run = take(backlog)
    assert sorted(bodies(run)) == [b"at publish", b"by requeue"]
    assert [int.from_bytes(run.frame_at(index)[16:18], "big") for index in range(2)] == [2, 2]


def test_offsets_that_may_have_been_given_are_not_given_again_and_are_no_depth(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"a", b"b")
    bench.restart({7: 0}, reserved=1_000)
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"c")
    assert backlog.depth == 3
    run = take(backlog)
    assert bodies(run) == [b"a", b"b", b"c"]
    assert [int(one, 16) - (1 << 40) for one in run.ids] == [0, 1, 1_000]
    backlog.settle(run.ids)
    bench.log.end_turn()
    assert backlog.progress.floor == 1_001
    bench.restart({7: 0}, reserved=2_000)
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, bench.topic.queue.gaps) == (0, [(2, 998)])


def test_nothing_of_a_deleted_topic_or_channel_appears_again(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    bench.publish(b"old", b"old")
    take(backlog)
    bench.topic.delete()
    bench.log.end_turn()
    bench.kill()
    opening = bench.start(TopicOpening("t", 2, 2 << 40, 0, None, {9: 0}))
    assert opening.unknown_records == 1
    topic = opening.topics[2]
    again = topic.open_channel("c", 9)
    assert (topic.depth, again.depth) == (0, 0)
    bench.publish(b"new", topic=topic)
    assert list(everything(again)) == [b"new"]


def test_what_waited_at_a_paused_topic_waits_there_again(bench: Bench) -> None:
    bench.topic.open_channel("c", 7)
    bench.publish(b"a")
    bench.topic.set_flowing(False)
    bench.publish(b"b", b"c")
    bench.restart({7: 0}, released=1)
    bench.topic.set_flowing(False)
    backlog = bench.topic.open_channel("c", 7)
    assert (bench.topic.depth, backlog.depth) == (2, 1)
    bench.topic.set_flowing(True)
    assert bench.topic.pump(10) == 2
    assert list(everything(backlog)) == [b"a", b"b", b"c"]


def test_messages_that_are_gone_are_no_depth_though_a_power_cut_undid_their_settling(tmp_path: Path) -> None:
    bench = Bench(tmp_path, segment_bytes=4_096, checkpoint_interval_ms=10)
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"first")
    bench.log.tick(0)
    for number in range(50):
        bench.publish(b"%d" % number * 100)
    run = take(channel, 4)
    bench.log.end_turn()
    # What a power cut may leave: the checkpoint and the progress of now, and the segments of later.
    shutil.copytree(tmp_path / "log" / "progress", tmp_path / "progress")
    shutil.copy(tmp_path / "log" / "checkpoint", tmp_path / "checkpoint")
    channel.settle(run.ids)
    assert len(list(everything(channel))) == 47
    bench.log.end_turn()
    assert bench.log.retention.remove_unneeded() > 1
    bench.kill()
    shutil.rmtree(tmp_path / "log" / "progress")
    shutil.copytree(tmp_path / "progress", tmp_path / "log" / "progress")
    shutil.copy(tmp_path / "checkpoint", tmp_path / "log" / "checkpoint")
    bench.restart({7: 0})
    channel = bench.topic.open_channel("c", 7)
    depth = channel.depth
    assert 0 < depth < 45
    assert len(list(everything(channel))) == depth


def test_a_topic_whose_records_were_removed_ends_where_it_ended(tmp_path: Path) -> None:
    """Also where the consume queues are made anew from the log: readers that have read all of it go on from there."""
    bench = Bench(tmp_path, segment_bytes=4_096, checkpoint_interval_ms=10)
    other = bench.open_topic("other", 2)
    for topic in (bench.topic, other):
        for number in range(50):
            bench.publish(b"%d" % number * 100, topic=topic)
        topic.empty()
    bench.publish(b"kept", topic=other)
    assert bench.log.retention.remove_unneeded() > 1
    bench.clock.advance(ms=10)
    bench.log.tick(bench.clock.monotonic_ns())
    bench.kill()
    shutil.rmtree(tmp_path / "log" / "queues" / "2")
    opening = bench.start(TopicOpening("t", 1, 1 << 40, 1_000), TopicOpening("other", 2, 2 << 40, 1_000))
    removed, kept = opening.topics[1], opening.topics[2]
    assert kept.oldest_offset > 0
    assert kept.end_offset == 51
    assert (removed.oldest_offset, removed.end_offset, removed.next_offset) == (50, 50, 1_000)
    bench.publish(b"more", topic=removed)
    assert (removed.oldest_offset, removed.end_offset) == (50, 1_001)


def test_what_a_paused_topic_dropped_stays_so_though_topology_json_has_not_heard(bench: Bench) -> None:
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"before")
    assert list(everything(channel)) == [b"before"]
    bench.topic.set_flowing(False)
    frozen = bench.topic.released
    bench.publish(b"later", due_ms=1_000)
    bench.publish(b"now")
    bench.topic.empty()
    bench.log.end_turn()
    bench.restart({7: 0}, released=frozen)
    channel = bench.topic.open_channel("c", 7)
    bench.publish(b"after")
    while bench.topic.pump(100):
        pass
    assert (channel.depth, channel.deferred_count) == (1, 0)
    assert list(everything(channel)) == [b"after"]


def test_all_that_is_derived_may_be_gone(bench: Bench) -> None:
    backlog = bench.topic.open_channel("c", 7)
    for number in range(20):
        bench.publish(b"%d" % number, b"x")
    bench.publish(b"later", due_ms=5_000)
    backlog.settle(take(backlog, 11).ids)
    bench.log.close()
    shutil.rmtree(bench.path / "log" / "queues")
    bench.restart({7: 0})
    backlog = bench.topic.open_channel("c", 7)
    assert (backlog.depth, backlog.deferred_count) == (29, 1)
    assert next(everything(backlog)) == b"x"


@pytest.mark.slow(reason="does random work for many lives")
def test_random_work_with_kills_in_between_loses_nothing_and_repeats_nothing_settled(tmp_path: Path) -> None:
    for seed in range(6):
        bench = Bench(tmp_path / str(seed), segment_bytes=4_096)
        rng = random.Random(seed)
        backlog = bench.topic.open_channel("c", 7)
        published: set[bytes] = set()
        settled: set[bytes] = set()
        attempts: dict[bytes, int] = {}
        held: list[Run] = []
        for step in range(300):
            act = rng.random()
            if act < 0.3:
                some = [b"%d-%d" % (step, index) for index in range(rng.randrange(1, 9))]
                published.update(some)
                bench.publish(*some, due_ms=rng.choice([None, None, None, 20]))
            elif act < 0.6:
                run = backlog.take(rng.randrange(1, 12), 10_000)
                if run is not None:
                    backlog.sent(run)
                    for index, body in enumerate(bodies(run)):
                        assert body not in settled
                        made = int.from_bytes(run.frame_at(index)[16:18], "big")
                        assert made == attempts.get(body, 0) + 1
                        attempts[body] = made
                    held.append(run)
            elif act < 0.85 and held:
                run = held.pop(rng.randrange(len(held)))
                cut = rng.randrange(len(run) + 1)
                backlog.settle(run.ids[:cut])
                settled.update(bodies(run)[:cut])
                if run.ids[cut:]:
                    due = rng.choice([None, bench.clock.monotonic_ns() + 5_000_000])
                    backlog.give_back(run, run.ids[cut:], counted=True, due_ns=due)
                bench.log.end_turn()
            elif act < 0.95:
                bench.clock.advance(ms=rng.randrange(3_000))
                backlog.release_due(bench.clock.monotonic_ns(), 100)
                bench.log.tick(bench.clock.monotonic_ns())
            else:
                before = backlog.depth + backlog.deferred_count + sum(map(len, held))
                if rng.random() < 0.3:
                    bench.log.close()
                opening = bench.restart({7: 0})
                backlog = bench.topic.open_channel("c", 7)
                held.clear()
                assert opening.log.damages == []
                assert backlog.depth + backlog.deferred_count == before == len(published - settled)
        for run in held:
            backlog.give_back(run, run.ids, counted=True)
        backlog.release_deferred()
        assert set(everything(backlog)) == published - settled
        bench.kill()
