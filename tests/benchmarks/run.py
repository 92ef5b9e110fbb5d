"""The long run of the benchmarks: alternating rounds, medians, results.json.

.venv/bin/python -m tests.benchmarks.run [--rounds 5] [--only NAME … | --pipeline] [--engine-only]
                                            [--readme | --no-write]
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks import results
from tests.benchmarks.log_scenarios import (
    Channels,
    Deep,
    LogSingles,
    LogSinglesGuesses,
    LogSinglesReloads,
    SingleRecords,
    Topics,
)
from tests.benchmarks.peers import nsqd_server
from tests.benchmarks.pipeline_scenarios import (
    Closing,
    PipelineArchive,
    PipelineHistory,
    PipelinePublish,
    PipelineQueryable,
    PipelineReads,
    PipelineWorker,
)
from tests.benchmarks.results import Rounds
from tests.benchmarks.scenarios import (
    Dashboards,
    Figures,
    Latency,
    Reloads,
    Scenario,
    Single,
    SingleFins,
    Stream,
    beside_nsqd,
)
from tests.benchmarks.spark_topics import SparkTopics
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.server import ServerProcess

SPARK_TOPICS = SparkTopics(messages=1_000_000)

PIPELINE: Sequence[Scenario] = (
    PipelineReads(SPARK_TOPICS),
    PipelineArchive(SPARK_TOPICS),
    PipelinePublish(SPARK_TOPICS, seconds=5),
    PipelineQueryable(seconds=60),
    PipelineHistory(days=30, channels=500, requests=41),
    PipelineWorker(rest_s=60, idle_s=120),
)

LONG: Sequence[Scenario] = (
    Stream("200", body_bytes=200, messages=400_000),
    Stream("20", body_bytes=20, messages=400_000),
    Stream("20k", body_bytes=20_000, messages=12_000),
    Stream("3_channels", body_bytes=200, messages=200_000, channels=3),
    Single(connections=1, seconds=3),
    Single(connections=8, seconds=3),
    Latency(seconds=5),
    Reloads(seconds=10),
    Dashboards(seconds=4),
    Stream("log_always", body_bytes=200, messages=400_000, storage="log", fsync="always"),
    Stream("log_os", body_bytes=200, messages=400_000, storage="log", options=("--sync=os",)),
    Stream("log_20", body_bytes=20, messages=400_000, storage="log", fsync="always"),
    Stream("log_20k", body_bytes=20_000, messages=12_000, storage="log", fsync="always"),
    Stream("log_3_channels", body_bytes=200, messages=200_000, channels=3, storage="log", fsync="always"),
    LogSingles(connections=64, seconds=3),
    LogSinglesReloads(connections=64, seconds=5),
    LogSinglesGuesses(connections=64, seconds=5),
    SingleFins(messages=200_000),
    Channels(messages=400_000),
    Topics(seconds=3),
    Deep(messages=10_000_000),
    SingleRecords(messages=1_000_000),
    *PIPELINE,
)
NEED_THE_CONSOLE = {"reloads", "dashboards", "log_single_64_reloads", "log_single_64_guesses", "deep", "records"} | {
    scenario.name for scenario in PIPELINE
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[scenario.name for scenario in LONG])
    parser.add_argument("--pipeline", action="store_true", help="measure the data pipeline, and nothing else")
    parser.add_argument("--engine-only", action="store_true", help="measure the engine without the console beside it")
    parser.add_argument(
        "--readme", action="store_true", help="measure nothing; make both READMEs' tables from results.json"
    )
    parser.add_argument("--no-write", action="store_true", help="show the figures and leave results.json alone")
    given = parser.parse_args()
    if given.readme:
        results.write_readmes()
        return
    scenarios = [
        scenario
        for scenario in (PIPELINE if given.pipeline else LONG)
        if (not given.only or scenario.name in given.only)
        and not (given.engine_only and scenario.name in NEED_THE_CONSOLE)
    ]
    nsqd_server.program()  # a wrong one is told before anything is measured
    rounds = measure_all(scenarios, given.rounds, EngineProcess if given.engine_only else ServerProcess)
    print(results.table(rounds))
    if not given.no_write and not given.engine_only:
        results.write(rounds, command=f"python -m tests.benchmarks.run {' '.join(sys.argv[1:])}".strip())


def measure_all(scenarios: Sequence[Scenario], round_count: int, kind: type[ServerProcess]) -> Rounds:
    """Every scenario, `round_count` times, on a server of this kind for each set of options."""
    rounds: Rounds = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        for number, options in enumerate(dict.fromkeys(scenario.options for scenario in scenarios)):
            with kind(Path(directory) / f"data{number}", options=options) as server, ExitStack() as stack:
                for scenario in scenarios:
                    if scenario.options == options:
                        if isinstance(scenario, Closing):
                            stack.callback(scenario.close)
                        measure(scenario, server, Path(directory) / "peer", round_count, rounds)
    return rounds


def measure(scenario: Scenario, server: ServerProcess, directory: Path, round_count: int, rounds: Rounds) -> None:
    """Alternate the sides `round_count` times and add what they did to `rounds`."""

    def add(number: int, side: str, figures: Figures) -> None:
        for name, value in figures.items():
            rounds.setdefault(name, {}).setdefault(side, []).append(value)
            print(f"{scenario.name} {number + 1}/{round_count} {side:11} {name:36} {value:14,.2f}", flush=True)

    for number in range(round_count):
        add(number, "penstock", scenario.penstock(server))
        add(number, "redis", scenario.redis(directory))
        for side in nsqd_server.SIDES:
            add(number, side, beside_nsqd(scenario, side, directory))


if __name__ == "__main__":
    main()
