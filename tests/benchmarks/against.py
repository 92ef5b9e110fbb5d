"""This checkout beside another one, in alternating rounds of one run: what a change did to the speed of publishing.

git worktree add ../before COMMIT
.venv/bin/python -m tests.benchmarks.against ../before [--rounds 15] [--seconds 3] [--only NAME …]

Both servers run all the time, each with a data directory of its own, and one round of each scenario goes to the one,
then to the other; the order changes with every round. Shown are the medians of both, and the median of the ratios of
the rounds, with their quartiles: above 1 this checkout is faster.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.benchmarks.log_scenarios import publish_singles
from tests.benchmarks.scenarios import (
    BATCH,
    halves,
    is_consumed,
    publish_rate,
    rate,
    single_program,
    together,
    topic_with,
)
from tests.support.processes.server import ServerProcess

Measure = Callable[[ServerProcess, float], dict[str, float]]


def mpub(storage: str, connections: int) -> Measure:
    """MPUBs of 200 messages of 200 bytes, each waiting for its OK."""

    def measure(server: ServerProcess, seconds: float) -> dict[str, float]:
        with topic_with(server, storage, "c0") as topic:
            programs = [single_program(server, topic, share, seconds, 1, BATCH) for share in halves(connections)]
            reports, start_ns = together(programs)
        took_s = (max(one["end_ns"] for one in reports) - start_ns) / 1e9
        return {"messages/s": sum(one["count"] for one in reports) / took_s}

    return measure


def single(storage: str, connections: int) -> Measure:
    """One PUB at a time on each connection."""

    def measure(server: ServerProcess, seconds: float) -> dict[str, float]:
        with topic_with(server, storage, "c0") as topic:
            singles = publish_singles(server, topic, connections, seconds)
        return {"messages/s": singles.rate, "p99 ms": singles.p99_ms}

    return measure


def consume(storage: str) -> Measure:
    """A backlog consumed with RDY 2500 and FIN on 2 connections."""

    def measure(server: ServerProcess, seconds: float) -> dict[str, float]:
        messages = int(seconds * 200_000)
        with topic_with(server, storage, "c0") as topic:
            publish_rate(server, topic, 200, messages)
            program = ("nsq_load", "consume", server.tcp_port, topic, "c0", 200, 2_500)
            consumed = rate([program] * 2, expected=messages, is_over=lambda: is_consumed(server, topic))
            return {"messages/s": consumed}

    return measure


SCENARIOS: Mapping[str, Measure] = {
    "log_mpub_2": mpub("log", 2),
    "log_mpub_8": mpub("log", 8),
    "log_single_1": single("log", 1),
    "log_single_8": single("log", 8),
    "log_single_64": single("log", 64),
    "log_consume": consume("log"),
    "diskqueue_mpub_2": mpub("diskqueue", 2),
    "diskqueue_single_8": single("diskqueue", 8),
    "diskqueue_single_64": single("diskqueue", 64),
    "diskqueue_consume": consume("diskqueue"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round of a scenario")
    parser.add_argument("--only", nargs="+", choices=list(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--options", nargs="*", default=["--no-pipeline"], help="of both servers")
    arguments = parser.parse_args()
    if not (arguments.before / "manage.py").is_file():
        parser.error(f"{arguments.before} is no checkout: it has no manage.py")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        here, before = Path(directory) / "here", Path(directory) / "before"
        here.mkdir()
        before.mkdir()
        with (
            ServerProcess(before, options=arguments.options, root=arguments.before) as old,
            ServerProcess(here, options=arguments.options) as new,
        ):
            for name in arguments.only:
                show(name, compare(SCENARIOS[name], old, new, arguments.rounds, arguments.seconds))


def compare(
    measure: Measure, old: ServerProcess, new: ServerProcess, rounds: int, seconds: float
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """(before, here) of each round."""
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(rounds):
        sides = [old, new] if number % 2 == 0 else [new, old]
        figures = {id(server): measure(server, seconds) for server in sides}
        pairs.append((figures[id(old)], figures[id(new)]))
    return pairs


def show(name: str, pairs: list[tuple[dict[str, float], dict[str, float]]]) -> None:
    for unit in pairs[0][0]:
        before = statistics.median(pair[0][unit] for pair in pairs)
        here = statistics.median(pair[1][unit] for pair in pairs)
        ratios = sorted(pair[1][unit] / pair[0][unit] for pair in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        sys.stdout.write(
            f"{name} {unit}: before {before:,.1f}, here {here:,.1f}, "
            f"ratio {statistics.median(ratios):.2f} [{low:.2f} … {high:.2f}] of {len(pairs)} rounds\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
