"""/metrics: every line well formed, the figures those of /stats and of the process."""

import asyncio
import os
import platform
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from queue_engine.service.http.api import SCRAPES_MAX
from queue_engine.service.monitoring import process_figures as process_figures_module
from queue_engine.service.monitoring.console_figures import AuditListFigures, ConsoleFigures, JobFigures
from queue_engine.service.monitoring.exposition import labels, shown
from queue_engine.service.monitoring.families import FAMILIES
from queue_engine.service.monitoring.metrics import SurroundingsReader, metrics_text
from queue_engine.storage.aside_stats import AsideStats
from queue_engine.vocabulary.version import full_version
from tests.service.http.server import Server, http_server
from tests.support.engine import Client, settle
from tests.support.exposition import Figures, read_exposition
from tests.support.waiting import wait_for_async


async def figures_of(server: Server, query: str = "") -> Figures:
    answer = await server.request("GET", f"/metrics{query}")
    assert answer.status == 200
    assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
    return read_exposition(answer.body)


async def test_topics_and_channels_have_the_figures_of_their_stats(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for body in (b"one", b"two", b"three"):
            await server.request("POST", "/pub?topic=orders", body)
        await server.request("POST", "/channel/create?topic=orders&channel=billing")
        settle(server.engine)
        client = Client(server.engine, "orders", "billing", ready=2)
        client.finish(client.sink.received[0].id)
        client.ready(1)
        figures = await figures_of(server)
        assert figures["penstock_up"] == 1
        assert figures["penstock_connections"] == 1
        assert figures['penstock_topic_messages_total{topic="orders"}'] == 3
        assert figures['penstock_topic_body_bytes_total{topic="orders"}'] == 11
        assert figures['penstock_channel_finished_total{topic="orders",channel="billing"}'] == 1
        assert figures['penstock_channel_in_flight{topic="orders",channel="billing"}'] == 2
        assert figures['penstock_channel_depth{topic="orders",channel="billing"}'] == 0


async def test_each_family_of_an_answer_is_as_the_table_says(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await server.request("POST", "/channel/create?topic=orders&channel=billing")
        figures = await figures_of(server)
    assert {name: (kind, figures.helps[name]) for name, kind in figures.kinds.items()} == {
        family.name: (family.kind, family.help) for family in FAMILIES.values() if family.name in figures.kinds
    }
    for key in figures.values:
        name, _, labels = key.rstrip("}").partition("{")
        if name in FAMILIES:
            assert tuple(one.partition("=")[0] for one in filter(None, labels.split(","))) == FAMILIES[name].labels, key


async def test_the_process_and_its_disk_have_their_figures(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        figures = await figures_of(server)
        room = os.statvfs(tmp_path)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        limit = int(Path("/proc/self/limits").read_text().partition("Max open files")[2].split()[0])
        assert figures[f'penstock_build_info{{version="{full_version()}",python="{platform.python_version()}"}}'] == 1
        assert figures["penstock_disk_size_bytes"] == room.f_blocks * room.f_frsize
        assert 0 <= figures["penstock_disk_free_bytes"] <= figures["penstock_disk_size_bytes"]
        assert 0.5 < figures["process_resident_memory_bytes"] / (pages * os.sysconf("SC_PAGESIZE")) < 2
        assert figures["process_virtual_memory_bytes"] >= figures["process_resident_memory_bytes"]
        assert figures["process_max_fds"] == limit
        # The process started before this file was made, and after the machine did.
        started_s = figures["process_start_time_seconds"]
        stat = Path("/proc/stat").read_text()
        booted_s = int(stat.partition("btime ")[2].split()[0])
        assert booted_s <= started_s <= tmp_path.stat().st_mtime + 1
        again = await figures_of(server)
        assert again["process_cpu_seconds_total"] > figures["process_cpu_seconds_total"] > 0
        assert again["penstock_engine_cpu_seconds_total"] > figures["penstock_engine_cpu_seconds_total"] > 0
        assert again["process_start_time_seconds"] == started_s


def test_a_proc_with_processes_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """ProcSubset=pid of a unit, and some containers, have no /proc/stat."""
    ordinary_open = open

    def without_the_machine(path: str, *arguments: Any, **options: Any) -> Any:
        if str(path) == "/proc/stat":
            raise FileNotFoundError(2, "No such file or directory", path)
        return ordinary_open(path, *arguments, **options)

    monkeypatch.setattr("builtins.open", without_the_machine)
    process_figures_module._start_s.cache_clear()
    assert process_figures_module.process_figures().start_s > 0


async def test_each_open_descriptor_counts(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        before = (await figures_of(server))["process_open_fds"]
        held = [os.open(tmp_path, os.O_RDONLY) for _ in range(100)]
        try:
            during = (await figures_of(server))["process_open_fds"]
        finally:
            for descriptor in held:
                os.close(descriptor)
        assert 90 <= during - before <= 110  # connections come and go meanwhile


async def test_a_disk_that_cannot_be_asked_leaves_its_figures_out(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        around = SurroundingsReader(str(tmp_path / "missing")).read(server.api.console)
        figures = read_exposition(metrics_text(server.engine.stats.now(), around, engine_cpu_s=0.5))
    assert figures["penstock_engine_cpu_seconds_total"] == 0.5
    assert [name for name in figures.names if name.startswith("penstock_disk_")] == []


async def test_the_console_hands_its_figures_in_as_one_object(tmp_path: Path) -> None:
    console = ConsoleFigures(
        failed_log_ins={"password": 3, "throttled": 0},
        refused_connections={"too_many": 2},
        notice_count=1,
        audit_list=AuditListFigures(5_000, 1 << 30),
        worker="running",
        worker_states=("idle", "running"),
        worker_restart_count=4,
        jobs={"archive": JobFigures("running", False, 12), "compact": JobFigures("failed", True, None)},
        job_states=("running", "failed"),
        replays={"done": 1},
    )
    async with http_server(tmp_path) as server:
        around = replace(SurroundingsReader(str(tmp_path)).read(server.api.console), console=console)
        figures = read_exposition(metrics_text(server.engine.stats.now(), around, engine_cpu_s=0))
    assert figures.of("penstock_failed_log_ins_total") == {'reason="password"}': 3, 'reason="throttled"}': 0}
    assert figures['penstock_connections_refused_total{listener="console",reason="too_many"}'] == 2
    assert figures["penstock_console_notices"] == 1
    assert (figures["penstock_audit_list_bytes"], figures["penstock_audit_list_limit_bytes"]) == (5_000, 1 << 30)
    assert figures.of("penstock_pipeline_worker") == {'state="idle"}': 0, 'state="running"}': 1}
    assert figures["penstock_pipeline_worker_restarts_total"] == 4
    assert figures.of("penstock_pipeline_job") == {
        'name="archive",state="running"}': 1,
        'name="archive",state="failed"}': 0,
        'name="compact",state="running"}': 0,
        'name="compact",state="failed"}': 1,
    }
    assert figures.of("penstock_pipeline_job_in_trouble") == {'name="archive"}': 0, 'name="compact"}': 1}
    assert figures.of("penstock_pipeline_job_lag") == {'name="archive"}': 12}
    assert figures.of("penstock_pipeline_replays") == {'state="done"}': 1}


class Slow:
    """A console whose figures wait for the test."""

    def __init__(self) -> None:
        self.is_released = threading.Event()

    def notices(self) -> list[str]:
        return []

    def figures(self) -> ConsoleFigures:
        assert self.is_released.wait(60)
        return ConsoleFigures(notice_count=7)


async def test_the_answer_is_made_beside_the_loop(tmp_path: Path) -> None:
    """A disk or a console that takes long delays the answer and nothing else."""

    async with http_server(tmp_path) as server:
        server.api.console = slow = Slow()
        waiting = asyncio.create_task(figures_of(server))
        assert (await server.request("GET", "/ping")).status == 200
        assert not waiting.done()
        slow.is_released.set()
        assert (await waiting)["penstock_console_notices"] == 7


async def test_scrapes_beyond_a_client_s_share_are_refused_and_others_go_on(tmp_path: Path) -> None:
    slow = Slow()
    async with http_server(tmp_path, trusted_proxy=("127.0.0.1",)) as server:
        server.api.console = slow
        half = SCRAPES_MAX // 2  # one client's
        waiting = [asyncio.create_task(figures_of(server)) for _ in range(half)]
        await wait_for_async("all to be asked", lambda: server.api.scrape_shares.used == half)
        refused = await server.request("GET", "/metrics")
        assert (refused.status, refused.message) == (503, "BUSY")
        assert refused.detail == (
            f"{half} of at most {SCRAPES_MAX} requests for /metrics are being answered, {half} of them for "
            "address 127.0.0.1: try again"
        )
        other = asyncio.create_task(server.request("GET", "/metrics", headers={"X-Forwarded-For": "192.0.2.7"}))
        await wait_for_async("another client's", lambda: server.api.scrape_shares.used == half + 1)
        slow.is_released.set()
        assert [figures["penstock_console_notices"] for figures in await asyncio.gather(*waiting)] == [7] * half
        assert (await other).status == 200
        await figures_of(server)


async def test_a_console_that_fails_costs_that_answer_alone(tmp_path: Path) -> None:
    class Failing:
        def notices(self) -> list[str]:
            return []

        def figures(self) -> ConsoleFigures:
            raise OSError("the lake is gone")

    async with http_server(tmp_path) as server:
        server.api.console = Failing()
        assert (await server.request("GET", "/metrics")).status == 500
        assert (await server.request("GET", "/ping")).status == 200


async def test_files_that_were_set_aside_are_counted(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.stats.note_aside(AsideStats(count=3, bytes=4_096, removed_count=2))
        around = SurroundingsReader(str(tmp_path)).read(server.api.console)
        figures = read_exposition(metrics_text(server.engine.stats.now(), around, engine_cpu_s=0))
    assert figures["penstock_set_aside_files"] == 3
    assert figures["penstock_set_aside_bytes"] == 4_096
    assert figures["penstock_set_aside_removed_total"] == 2


def test_label_values_are_escaped() -> None:
    assert labels(name='a"b\\c\nd', state="x") == '{name="a\\"b\\\\c\\nd",state="x"}'


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (True, "1"), (0.25, "0.25"), (1e-7, "1e-07"), (2**60, str(2**60)), (1763846400.5, "1763846400.5")],
)
def test_numbers_are_exact(value: float, text: str) -> None:
    assert shown(value) == text
    assert float(text) == value
