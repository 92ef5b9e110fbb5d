"""Every benchmark for a second, with a floor of a third of its target: finds what became slow, not how fast it is."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.benchmarks.log_scenarios import (
    Channels,
    Deep,
    LogSingles,
    LogSinglesGuesses,
    LogSinglesReloads,
    SingleRecords,
    Topics,
)
from tests.benchmarks.results import ROWS, verdict
from tests.benchmarks.scenarios import Dashboards, Figures, Latency, Reloads, Scenario, Single, SingleFins, Stream
from tests.support.processes.server import ServerProcess

pytestmark = [pytest.mark.benchmark, pytest.mark.slow(reason="measures real servers")]

TRIES = 5

SHORT: tuple[Scenario, ...] = (
    Stream("200", body_bytes=200, messages=60_000),
    Stream("20", body_bytes=20, messages=60_000),
    Stream("20k", body_bytes=20_000, messages=4_000),
    Stream("3_channels", body_bytes=200, messages=40_000, channels=3),
    Single(connections=1, seconds=1),
    Single(connections=8, seconds=1),
    Latency(seconds=1),
    Reloads(seconds=2),
    Dashboards(seconds=2),
    Stream("log_always", body_bytes=200, messages=60_000, storage="log", fsync="always"),
    Stream("log_os", body_bytes=200, messages=60_000, storage="log", options=("--sync=os",)),
    LogSingles(connections=64, seconds=1),
    LogSinglesReloads(connections=64, seconds=1),
    LogSinglesGuesses(connections=64, seconds=1),
    SingleFins(messages=40_000),
    Channels(messages=60_000),
    Topics(seconds=1, topics=100),
    Deep(messages=400_000, shallow=100_000),
    SingleRecords(messages=20_000),
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[tuple[str, ...]], ServerProcess]]:
    """A server for the options that a scenario wants; made once for each."""
    running: dict[tuple[str, ...], ServerProcess] = {}
    with ExitStack() as stack:

        def server(options: tuple[str, ...]) -> ServerProcess:
            if options not in running:
                one = ServerProcess(tmp_path_factory.mktemp("server") / "data", options=options)
                running[options] = stack.enter_context(one)
                # The first messages of a process pay for what is made once; they are not what is measured.
                Stream("200", body_bytes=200, messages=4_000).penstock(one)
            return running[options]

        yield server


@pytest.mark.timeout(600)  # one try may take a minute where the machine is busy
@pytest.mark.parametrize("scenario", SHORT, ids=lambda scenario: scenario.name)
def test_not_below_a_third_of_the_target(
    scenario: Scenario, servers: Callable[[tuple[str, ...]], ServerProcess], tmp_path: Path
) -> None:
    """Up to five tries: other work of the machine can only make a try worse."""
    server = servers(scenario.options)
    complaints: list[str] = []
    for number in range(TRIES):
        own, peer = scenario.penstock(server), scenario.redis(tmp_path / f"redis-{number}")
        complaints = shortfalls(own, peer, syncs_per_s(tmp_path))
        if not complaints:
            return
    raise AssertionError("; ".join(complaints))


def syncs_per_s(directory: Path) -> float:
    """Measures the disk now: writes of 16 KB, each synced. A shared disk may do a hundredth of its best."""
    took_s = []
    with (directory / "synced").open("wb", buffering=0) as file:
        for _ in range(20):
            file.write(bytes(16 << 10))
            begin_s = time.perf_counter()
            os.fdatasync(file.fileno())
            took_s.append(time.perf_counter() - begin_s)
    return 1 / statistics.median(took_s)


def shortfalls(own: Figures, peer: Figures, syncs_per_s: float) -> list[str]:
    """A sentence for every figure that is worse than three times off its target, or off what the disk can do."""
    assert own, "nothing was measured"
    found = []
    for name, value in own.items():
        row = ROWS[name]
        assert value > 0, name
        if row.at_most is not None and value > 3 * row.at_most:
            found.append(f"{name}: {value:.1f} {row.unit}, target {row.at_most:g}")
        if row.value_at_least is not None:
            possible = float("inf") if row.oks_per_sync is None else row.oks_per_sync * syncs_per_s
            if value < min(row.value_at_least, possible) / 3:
                found.append(f"{name}: {value:.1f} {row.unit}, target {row.value_at_least:g}, possible {possible:.0f}")
        if row.at_least is not None:
            other = peer[name] if row.against is None else own[row.against]
            if value < row.at_least / 3 * other:
                found.append(f"{name}: {value:.0f} beside {other:.0f} {row.unit}, target {row.at_least:g} of it")
        if row.against_at_most is not None and row.against is not None:
            other = own[row.against]
            if value > 3 * row.against_at_most * other:
                found.append(f"{name}: {value:.1f} beside {other:.1f} {row.unit}, target {row.against_at_most:g} of it")
    return found


def test_what_waits_for_the_disk_is_not_asked_for_more_than_the_disk_can_do() -> None:
    assert shortfalls({"log_single_64": 7000.0}, {}, syncs_per_s=5000) == []
    assert shortfalls({"log_single_64": 3400.0}, {}, syncs_per_s=53) == []
    assert shortfalls({"log_single_64": 3400.0}, {}, syncs_per_s=5000) == [
        "log_single_64: 3400.0 messages/s, target 20000, possible 320000"
    ]
    assert shortfalls({"log_single_64": 1000.0}, {}, syncs_per_s=53) != []


def test_verdicts_compare_medians_with_the_target() -> None:
    fast, slow = {"penstock": [9.0, 1.0, 9.0], "redis": [2.0, 6.0, 6.0]}, {"penstock": [3.0], "redis": [6.0]}
    assert verdict("publish_200", fast, {}) == (1.5, True)
    assert verdict("publish_200", slow, {}) == (0.5, False)
    assert verdict("latency_p50_ms", {"penstock": [4.0, 6.0, 6.0]}, {}) == (None, False)
    assert verdict("dashboards_watched", {"penstock": [95.0]}, {"dashboards_alone": 100.0}) == (0.95, True)
