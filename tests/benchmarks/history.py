"""Reading the history: thirty days of five hundred channels as the pipeline leaves them, one channel's graphs of them.

    python -m tests.benchmarks.history [--days 30] [--channels 500] [--nodes 1] [--rounds 21] [--directory DIR]

Makes the files first (some minutes and half a gigabyte for the whole size; those of an earlier run in DIR are kept),
then measures, on one JSON line: `query` in this process, from the question to columns, each round for another channel,
and `api` and `page` on a real server of its own, whose figures are of requests one after another. Milliseconds.
With several nodes every node has every channel: a million rows a day are 12 nodes of 50 channels.
"""

import argparse
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import duckdb

from admin_console.gateway.history import LakeHistory
from admin_console.history.ranges import Range, range_of
from admin_console.history.series import channel_history, overview_history, topic_history
from admin_console.history.store import Part, store_of
from queue_engine.lake.history.day_files import ROW_GROUP_ROWS
from queue_engine.lake.history.files import HistoryFiles
from queue_engine.lake.history.levels import WINDOW_S, date_of
from queue_engine.lake.history.merging import MERGED_GROUP_ROWS, MERGED_S
from queue_engine.lake.history.schema import COUNTERS, GAUGES, HISTORY_ROWS
from queue_engine.lake.tables.parquet_files import DataFile, existing_data_file
from queue_engine.lake.tables.storage import TableStorage
from tests.support.lakes.history_lake import HistoryLake
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess

DAY_S, HOUR_S = 86_400, 3_600
STREAM_S = 120  # of a file that the stream writes
CHANNELS_A_TOPIC = 9
LATENCY_BUCKETS = 12
COLUMNS = (
    ("samples", "paused_samples")
    + tuple(f"{gauge}_{kind}" for gauge in ("depth", "in_flight", "deferred") for kind in ("avg", "min", "max"))
    + ("messages", "finished", "timeouts", "requeued")
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--channels", type=int, default=500)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--directory", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        directory = asked.directory or Path(own)
        end_s = make_lake(directory, days=asked.days, channels=asked.channels, nodes=asked.nodes)
        measured = {"query": measure_queries(directory, end_s, asked.channels, asked.rounds)}
        measured |= measure_server(directory, asked.rounds)
    print(json.dumps(measured, indent=2))


def make_lake(data_path: Path, *, days: int, channels: int, nodes: int = 1) -> int:
    """Tables of closed days in files of a day, and of today the merged files and the stream's, up to three minutes ago.
    Of `nodes` nodes, each with all channels.

    Returns where it ends, Unix seconds. Every fourth channel has latencies, in twelve buckets a minute.
    """
    lake = HistoryLake(data_path)
    now_s = int(time.time())
    today_s = now_s // DAY_S * DAY_S
    end_s = now_s // 60 * 60 - 120
    days_s = range(today_s - days * DAY_S, today_s, DAY_S)
    spans = [("minutes", day_s, day_s + DAY_S, 60) for day_s in days_s]
    spans += [("hours", day_s, day_s + DAY_S, HOUR_S) for day_s in days_s]
    until_s = today_s
    for window_s in (*reversed(MERGED_S), STREAM_S, 60):
        # A larger window is merged when it is over.
        closed_s = end_s // window_s * window_s
        spans += [("minutes", at, at + window_s, 60) for at in range(until_s, closed_s, window_s)]
        until_s = max(until_s, closed_s)
    names = 1 + channels + -(-channels // CHANNELS_A_TOPIC)
    files: dict[str, list[DataFile]] = {level: [] for level in WINDOW_S}
    storage = TableStorage(str(lake.directory))
    with duckdb.connect(config={"threads": 2}) as connection:
        for level, first_s, last_s, step_s in spans:
            partition = {"date": date_of(first_s // DAY_S * DAY_S)}
            name = f"date={partition['date']}/part-{first_s}-{last_s}.parquet"
            path = lake.directory / level / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                rows = _rows(first_s, step_s, (last_s - first_s) // step_s, names, nodes)
                group_rows = ROW_GROUP_ROWS if last_s - first_s == DAY_S else MERGED_GROUP_ROWS
                # Written aside: an interrupted run leaves no half file to be kept.
                made = path.with_suffix(".tmp")
                connection.execute(
                    f"COPY ({rows}) TO '{made}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group_rows})"
                )
                made.rename(path)
            files[level].append(existing_data_file(storage, level, name, HISTORY_ROWS, partition))
    for level, made_files in files.items():
        # Of an earlier run in the same directory.
        shutil.rmtree(lake.directory / level / "_delta_log", ignore_errors=True)
        lake.commit(level, made_files)
    return end_s


def _rows(first_s: int, step_s: int, windows: int, names: int, nodes: int) -> str:
    """SQL: rows in their `ORDER`. Name 0 is the totals; of ten names the first is the topic itself."""
    columns = []
    for number, gauge in enumerate(GAUGES):
        # Values that stay for some minutes, as most gauges do, and are of their own for every channel.
        value = f"((hash(k, n, m // 7, {number}) % 1000) * (k % 7))::DOUBLE"
        columns += [
            f"{value} AS {gauge}_min",
            f"{value} + k % 5 AS {gauge}_max",
            f"{value} + 0.5 AS {gauge}_avg",
            f"{value} + 1 AS {gauge}_last",
        ]
    columns += [
        f"((hash(k, n, m, {number + 50}) % 600) * (k % 3))::BIGINT AS {counter}"
        for number, counter in enumerate(COUNTERS)
    ]
    buckets = f"""[{{'b': (40 + i * 3 + m % 3)::INTEGER, 'n': (1 + hash(k, n, m, i) % 50)::BIGINT}}
                   for i in range({LATENCY_BUCKETS})]"""
    node = "'here'" if nodes == 1 else "'nsq-' || lpad(n::VARCHAR, 2, '0') || ':4151'"
    of_name = windows * nodes
    return f"""
        SELECT ({first_s} + m * {step_s})::BIGINT AS t, {node} AS node,
               CASE WHEN k = 0 THEN '' ELSE 'topic-' || lpad(((k - 1) // 10)::VARCHAR, 3, '0') END AS topic,
               CASE WHEN k = 0 OR (k - 1) % 10 = 0 THEN '' ELSE 'channel-' || ((k - 1) % 10) END AS channel,
               6::INTEGER AS samples, {", ".join(columns)}, 0::INTEGER AS paused_samples,
               CASE WHEN k % 4 = 1 THEN {buckets} ELSE [] END AS latency
        FROM (SELECT range // {of_name} AS k, range % {of_name} // {nodes} AS m, range % {nodes} AS n
              FROM range({names * of_name}))"""


def channel_of(rng: random.Random, channels: int) -> tuple[str, str]:
    number = rng.randrange(channels)
    return f"topic-{number // CHANNELS_A_TOPIC:03d}", f"channel-{number % CHANNELS_A_TOPIC + 1}"


def measure_queries(
    data_path: Path, end_s: int, channels: int, rounds: int, *, names: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """In this process: duckdb alone, and all the way to the columns of a page. names: only these; None for all."""
    source = LakeHistory(str(data_path / "pipeline"))
    store = store_of(source)
    rng = random.Random(1)
    # A whole closed day across two files, and the last 24 hours with today's small files.
    closed_s = end_s // DAY_S * DAY_S - DAY_S // 2
    closed = [Part("minutes", closed_s - DAY_S, closed_s)]
    newest = [Part("minutes", end_s - DAY_S, end_s)]

    def page(asked: Range) -> Callable[[], object]:
        return lambda: channel_history(source, None, *channel_of(rng, channels), asked)

    def overview(asked: Range) -> Callable[[], object]:
        return lambda: overview_history(source, None, asked)

    files = HistoryFiles(data_path / "pipeline")
    works: dict[str, Callable[[], object]] = {
        "list_first": lambda: HistoryFiles(data_path / "pipeline").files("minutes", end_s - DAY_S, end_s),
        "list_again": lambda: files.files("minutes", end_s - DAY_S, end_s),
        "duckdb_24h_closed_days": lambda: store.windows(*channel_of(rng, channels), COLUMNS, closed),
        "duckdb_24h_closed_days_one_line": lambda: store.windows(
            *channel_of(rng, channels), ("samples", "depth_avg"), closed
        ),
        "duckdb_24h_until_now": lambda: store.windows(*channel_of(rng, channels), COLUMNS, newest),
        "duckdb_24h_latencies": lambda: store.latencies(*channel_of(rng, channels), closed),
    }
    for preset in ("1h", "6h", "24h", "7d", "30d"):
        works[f"channel_{preset}"] = page(range_of({"range": preset}, end_s + 120))
    works["topic_24h"] = lambda: topic_history(
        source, None, channel_of(rng, channels)[0], range_of({"range": "24h"}, end_s + 120)
    )
    for preset in ("24h", "7d", "30d"):
        works[f"overview_{preset}"] = overview(range_of({"range": preset}, end_s + 120))
    try:
        return {name: _timed(rounds, work) for name, work in works.items() if names is None or name in names}
    finally:
        store.close()


def measure_server(
    data_path: Path, rounds: int, *, names: Collection[str] | None = None
) -> dict[str, dict[str, float]]:
    """A real server on these files: its API and its pages. Without a worker, which would go on with the files."""
    topic, channel = "topic-003", "channel-5"
    with ServerProcess(data_path, options=["--no-pipeline"]) as server:
        server.http("POST", f"/topic/create?topic={topic}")
        server.http("POST", f"/channel/create?topic={topic}&channel={channel}")
        client = ConsoleClient(server.console_port)
        client.log_in()
        measured = {}
        for name, path in (
            ("api_channel_24h", f"/api/history/{topic}/{channel}/?range=24h"),
            ("api_channel_7d", f"/api/history/{topic}/{channel}/?range=7d"),
            ("api_channel_30d", f"/api/history/{topic}/{channel}/?range=30d"),
            ("api_overview_24h", "/api/history/?range=24h"),
            ("page_channel_24h", f"/topics/{topic}/{channel}/?range=24h"),
            ("page_channel_24h_table", f"/topics/{topic}/{channel}/?range=24h&as=table"),
        ):

            def ask(path: str = path) -> None:
                answer = client.get(path)
                assert answer.status == 200, answer.text

            if names is None or name in names:
                measured[name] = _timed(rounds, ask)
    return measured


def _timed(rounds: int, work: Callable[[], object]) -> dict[str, float]:
    """Median, 95 % and first of some rounds."""
    taken = []
    for _ in range(rounds):
        start_ns = time.perf_counter_ns()
        work()
        taken.append((time.perf_counter_ns() - start_ns) / 1e6)
    return {"median": statistics.median(taken), "p95": _share(taken, 0.95), "first": taken[0]}


def _share(taken: Sequence[float], share: float) -> float:
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * share))]


if __name__ == "__main__":
    main()
