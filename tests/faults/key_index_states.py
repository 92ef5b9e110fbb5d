"""Damage and crash states of the key index: each answer is right or says where it is not complete.

python -m tests.faults.key_index_states --seeds 500
"""

import argparse
import time
from random import Random

import pytest

from queue_engine.storage.key_index import key_indexes
from tests.support.disks.simulated_disk import SimulatedFiles
from tests.support.stores.background import HeldBackground
from tests.support.stores.key_index import KEYS, STATE_MS, IndexBench, in_log, keys_of

PART_ENTRIES = 16
# Of each topic so many keys are looked up.
KEYS_ASKED = 8


def filled() -> IndexBench:
    """Three topics, some messages with keys, in several files, and the state behind most of them."""
    bench = IndexBench(SimulatedFiles())
    bench.make(2)
    bench.make(3)
    for number in range(12):
        bench.publish(*keys_of(range(number * 8, number * 8 + 8)))
        bench.publish(b"hot", b"", b"two-%d" % number, topic=2)
        bench.publish(b"", b"", topic=3)
        if number % 3 == 2 and number < 11:
            bench.settle(2)
    bench.log.tick(bench.clock.monotonic_ns())
    return bench


def answers_right(bench: IndexBench) -> None:
    """Each answer is right, or says where it is not complete; and all is complete in the end."""
    logged = {number: in_log(topic) for number, topic in bench.topics.items()}
    asked = {
        number: dict(
            [*list(keys.items())[:2], *Random(len(keys)).sample(list(keys.items()), min(KEYS_ASKED, len(keys)))]
        )
        for number, keys in logged.items()
    }
    for is_settled in (False, True):
        for number, keys in asked.items():
            for key, offsets in keys.items():
                got = bench.offsets(key, topic=number)
                missing = bench.missing(number)
                assert [one for one in offsets if not any(first <= one < end for first, end in missing)] == [
                    one for one in got if not any(first <= one < end for first, end in missing)
                ]
                assert set(got) <= set(offsets)
                assert not is_settled or (missing, got) == ([], offsets)
        if not is_settled:
            bench.settle(6)


def index_files(files: SimulatedFiles) -> list[str]:
    return [path for path in files.contents() if path.startswith(KEYS)]


def damage_case(good: SimulatedFiles, seed: int) -> None:
    """Files of the index are damaged, cut, swapped or gone before a start."""
    rng = Random(seed)
    files = good.after_kill()
    for _ in range(rng.choice([1, 1, 3])):
        path = rng.choice(index_files(files))
        content = files.contents()[path]
        at = rng.randrange(len(content))
        kind = rng.choice(["flip", "cut", "zeros", "gone", "swapped"])
        if kind == "flip":
            content = content[:at] + bytes([content[at] ^ rng.randrange(1, 256)]) + content[at + 1 :]
        elif kind == "cut":
            content = content[:at]
        elif kind == "zeros":
            content = content[:at] + bytes(min(512, len(content) - at)) + content[at + 512 :]
        elif kind == "swapped":
            content = files.contents()[rng.choice(index_files(files))]
        files.unlink(path)
        if kind != "gone":
            files.replace(path, content)
    answers_right(IndexBench(files, 1, 2, 3))


def crash_case(seed: int) -> int:
    """The process or the power ends at some operations of a script; returns how many states were judged."""
    rng = Random(1_000 + seed)
    disk, worker = SimulatedFiles(), HeldBackground()
    bench = IndexBench(disk, worker=worker)
    bench.make(2)
    left: list[SimulatedFiles] = []
    wanted = {rng.randrange(20, 500) for _ in range(4)}

    def before(operation: str) -> None:
        if disk.operations in wanted:
            left.append(disk.after_kill() if rng.random() < 0.5 else disk.after_power_cut(rng))

    disk.before_operation = before
    for number in range(60):
        keys = [rng.choice([b"hot", b"", b"order-%d" % number]) for _ in range(rng.randrange(1, 12))]
        bench.publish(*keys, topic=rng.choice([1, 1, 2]))
        bench.tick(rng.choice([10, 1_000, STATE_MS]))
        for _ in range(rng.randrange(4)):
            worker.work()
            worker.answer()
    for files in left:
        again = IndexBench(files, 1, 2)
        for number in (1, 2):
            if number in again.topics:
                again.publish(b"hot", b"after", topic=number)
        answers_right(again)
        again.log.close()
        answers_right(IndexBench(again.files, 1, 2))
    return len(left)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    options = parser.parse_args()
    began, states = time.monotonic(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_indexes, "PART_ENTRIES", PART_ENTRIES)
        good = filled().files
        for seed in range(options.seed, options.seed + options.seeds):
            damage_case(good, seed)
            states += crash_case(seed)
    print(f"{options.seeds} damaged starts and {states} crash states in {time.monotonic() - began:.0f} s: all right")


if __name__ == "__main__":
    main()
