"""The console's work for each snapshot of 500 topics with 5,000 channels: rings and diagnosis, and the rings' memory.

    python -m tests.benchmarks.live_figures [--seconds 120] [--full]

Snapshots are made beforehand and written into the hub as the engine hands them over, one for each second. Processor
time of the thread is measured, which other work of the machine changes little. "healthy": messages flow through every
channel, and one in fifty has a finding. "waiting": messages wait in every channel, and no consumer is connected.
"failing": every channel fails, falls behind and grows old. "mixed": a third of each.
--full: the fifteen minutes that the rings hold, for their memory.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import django

from admin_console.hub.hub import RINGS_BYTES_MAX, Hub, LiveState
from admin_console.rings.rings import SECONDS
from admin_console.screens.build import Request, build_screen
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats, EngineSnapshot
from tests.support.pages.snapshots import START_S, channel, failures, snapshot, topic

TOPICS = 500
CHANNELS = 10  # of each topic
# What the channels are, in turn.
SETS: dict[str, tuple[str, ...]] = {
    "healthy": ("failing", *["flowing"] * 49),
    "waiting": ("waiting",),
    "failing": ("failing",),
    "mixed": ("failing", "waiting", "flowing"),
}
TARGET_MS = 50.0  # 5 % of a core
FRAME_BYTES_MAX = 50_000
WARM_UP = 35  # seconds of figures before the measurement: trends are known by then


@dataclass(frozen=True, slots=True)
class Cost:
    """rings_ms, diagnosis_ms: processor time for each snapshot. rings_bytes: of all rings at the end.
    findings: channels that have one; settled: findings whose sentences were made before a page was.
    frame_bytes: of the overview's live update."""

    rings_ms: float
    diagnosis_ms: float
    rings_bytes: int
    findings: int
    settled: int
    frame_bytes: int

    def line(self, name: str) -> str:
        together_ms = self.rings_ms + self.diagnosis_ms
        return (
            f"{name:8} a snapshot: rings {self.rings_ms:.1f} ms, diagnosis {self.diagnosis_ms:.1f} ms, together "
            f"{together_ms:.1f} ms (target {TARGET_MS:g}); rings {self.rings_bytes / 1e6:.1f} MB (target "
            f"{RINGS_BYTES_MAX / 1e6:.1f}); {self.findings} with findings, {self.settled} "
            f"in words; the overview's frame {self.frame_bytes / 1e3:.1f} KB (target {FRAME_BYTES_MAX / 1e3:g})"
        )


def figures(number: int, second: int, state: str) -> ChannelStats:
    """The channel of this number at this second: a rate of its own, and every figure changes."""
    rate = 20 + number % 400
    wave = (second * 7 + number) % 23
    given = {
        "depth": 500 + 40 * wave,
        "in_flight_count": 10 + wave % 9,
        "deferred_count": 5 + wave % 7,
        "message_count": rate * second,
        "finish_count": rate * second - 40 * wave,
        "requeue_count": second // 3 if number % 10 == 0 else 0,
        "timeout_count": second // 5 if number % 10 == 0 else 0,
        "client_count": 4,
        "ready_count": 40,
        "oldest_ns": (START_S + second - 2) * 10**9,
        "attempts_max": 3,
        "attempts_max_id": f"{number:016x}",
        "failures": failures(requeued=min(second, 60) // 3, timed_out=min(second, 60) // 5)
        if number % 10 == 0 and second >= 5
        else None,
    }
    if state == "waiting":
        given |= {
            "depth": 1_000 + 10 * second,
            "in_flight_count": 0,
            "client_count": 0,
            "ready_count": 0,
            "finish_count": 0,
            "oldest_ns": (START_S - 600) * 10**9,
            "failures": None,
        }
    if state == "failing":
        given |= {
            "depth": 1_000 + 10 * second,
            "finish_count": (rate - 10) * second,
            "requeue_count": 8 * second,
            "oldest_ns": (START_S - 600) * 10**9,
            "failures": failures(requeued=8 * min(second, 60), by=number % 9 + 1, share=0.8) if second else None,
        }
    return channel(f"t{number // CHANNELS}", f"c{number % CHANNELS}", **given)


def snapshots(seconds: int, *, states: Sequence[str], topics: int) -> Iterator[EngineSnapshot]:
    for second in range(seconds):
        made = []
        for number in range(topics):
            channels = [
                figures(one, second, states[one % len(states)])
                for one in range(number * CHANNELS, (number + 1) * CHANNELS)
            ]
            made.append(topic(f"t{number}", *channels, message_count=100 * second, storage="log"))
        yield snapshot(*made, second=START_S + second)


def measure(
    seconds: int,
    name: str = "healthy",
    *,
    topics: int = TOPICS,
    typical: Callable[[list[float]], float] = statistics.median,
) -> Cost:
    """Writes so many seconds of a set of `topics` × CHANNELS channels. typical: makes one time of those after the
    warm-up; the least is what other work of the machine disturbs least."""
    hub = Hub()
    together: list[float] = []
    diagnosis: list[float] = []
    for number, one in enumerate(snapshots(seconds, states=SETS[name], topics=topics)):
        if number < WARM_UP:
            hub.write(one)
            continue
        # A collection would fall to whatever runs when it is due.
        gc.collect()
        gc.disable()
        states, earlier = (hub.live.states, hub.live.diagnoses) if hub.live else ({}, {})
        began_s = time.thread_time()
        hub.write(one)
        together.append(time.thread_time() - began_s)
        # The same again, without the rings.
        began_s = time.thread_time()
        LiveState(one, hub.rings, hub.clock.newest, states, earlier)
        diagnosis.append(time.thread_time() - began_s)
        gc.enable()
    assert hub.live is not None
    diagnosis_ms = 1e3 * typical(diagnosis)
    settled = sum(state.finding.is_settled for states in hub.live.states.values() for state in states)
    frame = len(build_screen(Request("overview", Role.OPERATOR), hub.live).update_json())
    findings = sum(bool(one.states) for one in hub.live.diagnoses.values())
    return Cost(
        1e3 * typical(together) - diagnosis_ms,
        diagnosis_ms,
        hub.rings_bytes,
        findings,
        settled,
        frame,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    # The overview's frame is made of Django's URLs.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "admin_console.settings")
    django.setup()
    seconds = SECONDS + 5 if arguments.full else arguments.seconds
    print(measure(seconds).line("healthy"), flush=True)
    for name in ("waiting", "failing", "mixed"):
        print(measure(min(seconds, 60), name).line(name), flush=True)


if __name__ == "__main__":
    main()
