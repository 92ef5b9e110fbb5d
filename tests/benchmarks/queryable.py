"""Measures how long a published message takes until a SQL query over the archive returns it.

    python -m tests.benchmarks.queryable [--seconds 60] [--rounds 3]

Each round starts a server with its worker, and a topic of the log whose archive is on. The first message finds no
worker: its time includes the start of Spark. Then a message is published every second, and the topic's view is queried
every second, each time in a process of its own as by `penstock sql`. A message's time is from before its PUB to the end
of the first query that returned it, so it includes up to a second until that query began. The archive writes a quiet
topic once a minute: each of 60 seconds in a row is another time before its next round.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from queue_engine.lake.query.limits import QueryLimits
from queue_engine.lake.query.query import Query
from queue_engine.lake.query.views import views_of
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.vocabulary.errors import QueryError
from tests.support.processes.engine_api import EngineApi
from tests.support.processes.server import ServerProcess

TOPIC = "orders"
OPTIONS = ("--storage=log",)
EVERY_S = 1.0
TIMEOUT_S = 400.0  # a worker gives way to whatever else the machine does

Figures = dict[str, float]


def main() -> None:
    """Print a line of JSON for each round, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rounds: list[Figures] = []
    for number in range(given.rounds):
        with (
            tempfile.TemporaryDirectory() as directory,
            ServerProcess(Path(directory) / "data", options=OPTIONS) as server,
        ):
            rounds.append(measure(server, server.data_path, given.seconds))
        print(f"round {number + 1}: {json.dumps(rounds[-1])}", flush=True)
    print(json.dumps({name: statistics.median(one[name] for one in rounds) for name in rounds[0]}))


def measure(server: EngineApi, data_path: Path, seconds: int) -> Figures:
    """The first message alone, then one every second. Seconds each."""
    archive_topic(server)
    (first_s,) = times_to_query(server, data_path, range(1))
    times_s = times_to_query(server, data_path, range(1, seconds + 1))
    return {
        "queryable_s": statistics.median(times_s),
        "queryable_most_s": max(times_s),
        "queryable_first_s": first_s,
    }


def archive_topic(server: EngineApi) -> None:
    """Make TOPIC, with its archive switched on."""
    server.http("POST", f"/topic/create?topic={TOPIC}")
    server.http("POST", f"/cursor/create?topic={TOPIC}&cursor=archive")


def times_to_query(server: EngineApi, data_path: Path, numbers: Sequence[int]) -> list[float]:
    """Publish a message for each number, one every EVERY_S, and query until the archive has all. Seconds of each, in
    order."""
    published_s: dict[int, float] = {}
    queried_s: dict[int, float] = {}

    def publish() -> None:
        began_s = time.monotonic()
        for place, number in enumerate(numbers):
            time.sleep(max(began_s + place * EVERY_S - time.monotonic(), 0))
            published_s[number] = time.monotonic()
            server.http("POST", f"/pub?topic={TOPIC}", b"%d" % number)

    publisher = threading.Thread(target=publish, daemon=True)
    publisher.start()
    until_s = time.monotonic() + len(numbers) * EVERY_S + TIMEOUT_S
    while len(queried_s) < len(numbers):
        began_s = time.monotonic()
        assert began_s < until_s, f"{len(queried_s)} of {len(numbers)} messages are in the archive; no more came"
        found = archived_numbers(data_path, min(set(numbers) - set(queried_s)))
        ended_s = time.monotonic()
        assert len(set(found)) == len(found), "the archive has a message twice"
        queried_s = dict.fromkeys(found, ended_s) | queried_s
        time.sleep(max(began_s + EVERY_S - ended_s, 0))
    publisher.join()
    return [queried_s[number] - published_s[number] for number in numbers]


def archived_numbers(data_path: Path, first: int) -> list[int]:
    """The numbers from `first` that are in the archive, by a query of the topic's view."""
    lake = data_path / "pipeline"
    views = views_of(TableStorage(lake), TableStorage(lake / "history"), may_read_bodies=True)
    if not any(one.topic == TOPIC for one in views):
        return []  # its table is made by the first commit
    sql = f"SELECT text::BIGINT AS number FROM {TOPIC} WHERE text::BIGINT >= {first}"
    try:
        with Query(sql, views, QueryLimits()) as query:
            return [int(row["number"]) for batch in query.batches() for row in batch.to_pylist()]
    except QueryError as exc:
        if "nothing of it is archived there yet" not in str(exc):
            raise
        return []  # its directory is there, its first commit not yet


if __name__ == "__main__":
    main()
