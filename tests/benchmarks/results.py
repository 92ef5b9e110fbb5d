"""The results of a run of the benchmarks: raw rounds in results.json, and two READMEs' tables made from them."""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.peers import nsqd_server

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = Path(__file__).resolve().parent / "results.json"
READMES = (ROOT / "README.md", Path(__file__).resolve().parent / "README.md")  # the headlines, and all rows

_TABLE_START = "<!-- benchmarks: made by tests/benchmarks/run.py --readme -->\n"
_TABLE_END = "<!-- benchmarks: end -->\n"


@dataclass(frozen=True)
class Row:
    """One line of the table. The ratio is to Redis, also when nsqd has a column.

    at_least: the target as a ratio to the peer. at_most, value_at_least: the target as a value. None of these: reported
    only. against: the row whose median is the peer's instead of Redis's, for comparisons of Penstock with itself.
    against_at_most: the target as a ratio to that row, where less is better. oks_per_sync: how many OKs can wait for
    one sync of the disk, where each of them waits for one.
    """

    title: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    against: str | None = None
    value_at_least: float | None = None
    oks_per_sync: int | None = None
    against_at_most: float | None = None


_PER_S = "messages/s"
_ROWS = "rows/s"

ROWS: Mapping[str, Row] = {
    "publish_200": Row("publish, MPUB of 200 × 200 bytes, 2 connections", "messages/s", at_least=1.0),
    "consume_200": Row("consume and FIN, 200 bytes, RDY 2500, 2 connections", "messages/s", at_least=1.5),
    "publish_20": Row("publish, 20 bytes", "messages/s"),
    "consume_20": Row("consume and FIN, 20 bytes", "messages/s"),
    "publish_20k": Row("publish, 20 KB", "messages/s"),
    "consume_20k": Row("consume and FIN, 20 KB", "messages/s"),
    "publish_3_channels": Row("publish, 200 bytes, to 3 channels", "messages/s"),
    "consume_3_channels": Row("consume and FIN, 200 bytes, on 3 channels", "deliveries/s"),
    "single_1": Row("single PUB waiting for OK, 1 connection", "messages/s", at_least=0.7),
    "single_8": Row("single PUB waiting for OK, 8 connections", "messages/s", at_least=0.9),
    "latency_p50_ms": Row("PUB to consumer at 200 messages/s, RDY 2500, pynsq's IDENTIFY, p50", "ms", at_most=5),
    "latency_p99_ms": Row("the same, p99", "ms"),
    "reloads_p50_ms": Row("single PUB while 4 clients reload a page of 200 topics, p50", "ms"),
    "reloads_p99_ms": Row("the same, p99", "ms", at_most=20),
    "reloads_pages": Row("pages delivered meanwhile", "pages/s"),
    "dashboards_alone": Row("publish, 200 bytes, no open page", "messages/s"),
    "dashboards_watched": Row(
        "publish, 200 bytes, with 20 open dashboards, beside the line above",
        "messages/s",
        0.9,
        None,
        "dashboards_alone",
    ),
    "publish_log_always": Row(
        "`log`, `--sync always`: publish, MPUB of 200 × 200 bytes; Redis syncs always", _PER_S, 1.2
    ),
    "consume_log_always": Row("the same, consume and FIN, RDY 2500", _PER_S, 2.0),
    "publish_log_os": Row(
        "`log`, `--sync os`: publish, MPUB of 200 × 200 bytes; Redis syncs every second", _PER_S, 1.3
    ),
    "consume_log_os": Row("the same, consume and FIN, RDY 2500", _PER_S, 2.0),
    "publish_log_20": Row("`log`, `--sync always`: publish, 20 bytes; Redis syncs always", _PER_S),
    "consume_log_20": Row("the same, consume and FIN", _PER_S),
    "publish_log_20k": Row("`log`, `--sync always`: publish, 20 KB; Redis syncs always", _PER_S),
    "consume_log_20k": Row("the same, consume and FIN", _PER_S),
    "publish_log_3_channels": Row("`log`, `--sync always`: publish, to 3 channels; Redis syncs always", _PER_S),
    "consume_log_3_channels": Row("the same, consume and FIN on 3 channels", "deliveries/s"),
    "log_single_64": Row(
        "`log`, `--sync always`: single PUB, 64 connections", _PER_S, value_at_least=20_000, oks_per_sync=64
    ),
    "log_single_64_p99_ms": Row("the same, p99", "ms"),
    "log_oks_per_sync": Row("the same, OKs for each sync", "OKs", value_at_least=16),
    "log_single_64_reloads_alone": Row("`log`, `--sync always`: single PUB, 64 connections, beside 200 topics", _PER_S),
    "log_single_64_reloads_alone_p99_ms": Row("the same, PUB to OK, p99", "ms"),
    "log_single_64_reloads": Row(
        "the same while 4 clients reload the page of those topics, beside two lines above",
        _PER_S,
        at_least=0.5,
        against="log_single_64_reloads_alone",
    ),
    "log_single_64_reloads_p99_ms": Row(
        "the same, PUB to OK, p99, beside two lines above", "ms", against="log_single_64_reloads_alone_p99_ms"
    ),
    "log_single_64_reloads_pages": Row("pages delivered meanwhile", "pages/s"),
    "log_single_64_reloads_page_p99_ms": Row("their p99", "ms", at_most=300),
    "log_single_64_guesses_alone_p99_ms": Row(
        "`log`, `--sync always`: single PUB, 64 connections, PUB to OK, p99, without log-ins", "ms"
    ),
    "log_single_64_guesses_p99_ms": Row(
        "the same while 16 clients guess passwords without pause, beside the line above",
        "ms",
        against="log_single_64_guesses_alone_p99_ms",
        against_at_most=2.0,
    ),
    "log_single_64_guesses_answers": Row("guesses answered meanwhile", "answers/s"),
    "log_1_channel": Row("`log`: publish, MPUB of 200, to 1 channel", _PER_S),
    "log_100_channels": Row("the same to 100 channels, beside the line above", _PER_S, 0.9, None, "log_1_channel"),
    "log_1_topic": Row("`log`, `--sync always`: publish, MPUB of 200, 64 connections, to 1 topic", _PER_S),
    "log_1000_topics": Row("the same to 1,000 topics in turn, beside the line above", _PER_S, 0.7, None, "log_1_topic"),
    "log_1_topic_single": Row("`log`, `--sync always`: single PUB, 64 connections, to 1 topic", _PER_S),
    "log_1000_topics_single": Row(
        "the same to 1,000 topics in turn, beside the line above", _PER_S, None, None, "log_1_topic_single"
    ),
    "fin_log": Row("`log`: consume as pynsq does, 200 bytes, RDY 200, a write for each FIN, 2 connections", _PER_S),
    "fin_diskqueue": Row("the same on `diskqueue`", _PER_S),
    "deep_memory_mib": Row("10 million × 200 bytes waiting: growth of anonymous memory", "MiB", at_most=64),
    "deep_start_clean_s": Row("`serve` with those to its listening lines, after a clean stop", "s", at_most=2),
    "deep_start_killed_s": Row("the same after kill -9", "s", at_most=5),
    "deep_start_rebuilt_s": Row("the same with all derived files deleted", "s", at_most=60),
    "records_start_clean_s": Row("`serve` with 1 million messages published one by one, after a clean stop", "s"),
    "records_start_killed_s": Row("the same after kill -9", "s"),
    "records_start_rebuilt_s": Row("the same with all derived files deleted", "s"),
    "deep_consume_500k": Row("consume and FIN at a depth of 500,000, page cache dropped", _PER_S),
    "deep_consume": Row("the same at 10 million, beside the line above", _PER_S, 0.8, None, "deep_consume_500k"),
    "pipeline_parquet": Row("Spark, `local[2]`: 1 million rows of 200 bytes from Parquet (zstd) to nowhere", _ROWS),
    "pipeline_leased": Row(
        "the same rows, ten topics of the log, from leased segments, beside the line above",
        _ROWS,
        0.35,
        None,
        "pipeline_parquet",
    ),
    "pipeline_http": Row(
        "the same over HTTP, beside two lines above",
        _ROWS,
        0.25,
        None,
        "pipeline_parquet",
    ),
    "pipeline_copy": Row("the same rows from Parquet to Parquet (zstd)", _ROWS),
    "pipeline_archive": Row(
        "archive of the same ten topics, cursors to tables, beside the line above", _ROWS, 0.4, None, "pipeline_copy"
    ),
    "pipeline_publish_alone": Row("`log`, `--sync always`: publish, MPUB of 200, without an archive", _PER_S),
    "pipeline_publish": Row(
        "the same while the worker archives, beside the line above", _PER_S, 0.7, None, "pipeline_publish_alone"
    ),
    "queryable_s": Row(
        "archive of a topic that gets a message a second: PUB to the end of a SQL query that returns it",
        "s",
        at_most=60,
    ),
    "queryable_most_s": Row("the same, the slowest of 60 messages", "s"),
    "queryable_first_s": Row("the same, a message that finds no worker running", "s"),
    "history_query_ms": Row(
        "history of 500 channels: one of them, 24 hours by minutes, closed days, duckdb", "ms", at_most=15
    ),
    "history_query_now_ms": Row("the same up to now", "ms"),
    "history_page_p95_ms": Row("its page with those 24 hours, p95", "ms", at_most=300),
    "worker_first_start_s": Row("the pipeline's worker: start to first batch, first time", "s", at_most=25),
    "worker_later_start_s": Row("the same, later", "s", at_most=12),
    "worker_idle_percent": Row("its CPU, Java's and Spark's Python while all streams wait", "% of a core", at_most=3),
}

# Side → its column. Those of nsqd are there when a row has them.
COLUMNS: Mapping[str, str] = {"penstock": "Penstock", "redis": "Redis Streams"} | {
    side: " ".join(["nsqd", *(f"`{option}`" for option in options)]) for side, options in nsqd_server.SIDES.items()
}

# None of them is compared with another row, which would be missing beside it.
HEADLINES = (
    "latency_p50_ms",
    "publish_log_always",
    "consume_log_always",
    "log_single_64",
    "log_single_64_p99_ms",
)

Rounds = dict[str, dict[str, list[float]]]  # row → side → one value a round


def machine() -> dict[str, Any]:
    """The machine and the versions that the figures depend on."""
    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(memory_bytes / 2**30, 1),
        "kernel": platform.release(),
        "redis": redis.split("v=")[1].split()[0],
        "spark": importlib.metadata.version("pyspark"),
    }


def commit() -> str:
    """The commit that was measured, "+changes" behind it when the checkout was not clean."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    own = RESULTS.relative_to(ROOT).as_posix()
    changed = [
        line
        for line in git("status", "--porcelain", "--untracked-files=no").splitlines()
        if line[3:] not in (own, *(path.relative_to(ROOT).as_posix() for path in READMES))
    ]
    return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")


def write(rounds: Rounds, *, command: str) -> None:
    """results.json anew; rows that this run did not measure are kept from the last one, with its commit and Python."""
    rows = json.loads(RESULTS.read_text())["rows"] if RESULTS.exists() else {}
    measured = {
        "commit": commit(),
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
    }
    nsqd = {"nsqd_version": nsqd_server.version()} if nsqd_server.program() else {}
    rows |= {
        name: measured
        | (nsqd if "nsqd" in sides else {})
        | {side: [round(value, 3) for value in values] for side, values in sides.items()}
        for name, sides in rounds.items()
    }
    ordered = {name: rows[name] for name in ROWS if name in rows}
    text = json.dumps({"machine": machine(), "command": command, "rows": ordered}, indent=1, ensure_ascii=False)
    RESULTS.write_text(text + "\n")


def shown(value: float, unit: str) -> str:
    has_tenths = unit in ("ms", "s", "MiB", "OKs", "pages/s", "answers/s", "% of a core")
    return f"{value:.1f}" if has_tenths else f"{value:,.0f}"


def verdict(
    name: str, sides: Mapping[str, list[float]], medians: Mapping[str, float]
) -> tuple[float | None, bool | None]:
    """Ratio to the peer if there is one, and whether the target is met if there is one.

    medians: Penstock's own, by row, for rows that are compared with another row.
    """
    row = ROWS[name]
    own = statistics.median(sides["penstock"])
    peer = statistics.median(sides["redis"]) if "redis" in sides else medians.get(row.against or "")
    ratio = own / peer if peer else None
    if row.at_most is not None:
        return ratio, own <= row.at_most
    if row.value_at_least is not None:
        return ratio, own >= row.value_at_least
    if row.at_least is not None and ratio is not None:
        return ratio, ratio >= row.at_least
    if row.against_at_most is not None and ratio is not None:
        return ratio, ratio <= row.against_at_most
    return ratio, None


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The rows as Markdown: medians, least and greatest round, ratio, target."""
    medians = {name: statistics.median(sides["penstock"]) for name, sides in rows.items()}
    columns = {
        side: title
        for side, title in COLUMNS.items()
        if side not in nsqd_server.SIDES or any(side in sides for sides in rows.values())
    }
    lines = [f"| | {' | '.join(columns.values())} | ratio | target |", f"|---|{'---:|' * len(columns)}---:|---:|"]
    for name, sides in rows.items():
        row = ROWS[name]
        ratio, is_met = verdict(name, sides, medians)
        target = ""
        if row.at_most is not None:
            target = f"≤ {row.at_most:g} {row.unit}"
        elif row.value_at_least is not None:
            target = f"≥ {row.value_at_least:,g} {row.unit}"
        elif row.at_least is not None:
            target = f"≥ {row.at_least:g}"
        elif row.against_at_most is not None:
            target = f"≤ {row.against_at_most:g}"
        if is_met is False:
            target += " **missed**"
        cells = [
            f"{row.title}, {row.unit}",
            *(_cell(sides.get(side, []), row.unit) for side in columns),
            "" if ratio is None else f"{ratio:.2f}",
            target,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(values: list[float], unit: str) -> str:
    if not values:
        return ""
    median, least, most = (shown(value, unit) for value in (statistics.median(values), min(values), max(values)))
    return f"{median} [{least} … {most}]"


def _caption(facts: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]]) -> str:
    commits, pythons = (sorted({row[key] for row in rows.values()}) for key in ("commit", "python"))
    versions = sorted({row["nsqd_version"] for row in rows.values() if "nsqd_version" in row})
    nsqd = f"nsqd {', '.join(versions)}, " if versions else ""
    return (
        f"Medians [least … greatest] of alternating rounds; {facts['cores']} cores ({facts['cpu']}), "
        f"Python {', '.join(pythons)}, Redis {facts['redis']}, Spark {facts['spark']}, "
        f"{nsqd}commit {', '.join(commits)}.\n"
    )


def write_readmes() -> None:
    """Put the tables of results.json between their two marks in both READMES."""
    results = json.loads(RESULTS.read_text())
    headlines = {name: results["rows"][name] for name in HEADLINES if name in results["rows"]}
    for path, rows in zip(READMES, (headlines, results["rows"]), strict=True):
        head, rest = path.read_text().split(_TABLE_START)
        _, tail = rest.split(_TABLE_END)
        caption = _caption(results["machine"], rows)
        path.write_text(f"{head}{_TABLE_START}\n{table(rows)}\n{caption}{_TABLE_END}{tail}")
