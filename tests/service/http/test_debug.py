"""/debug: off unless it is asked for; then where threads and tasks are, and what memory is for."""

import asyncio
import gc
import threading
import tracemalloc
from pathlib import Path

import pytest

from queue_engine.service.http.rules import PATHS
from queue_engine.service.introspection import memory
from tests.service.http.server import http_server

DEBUG = [path for path in PATHS if path.startswith("/debug/")]


@pytest.mark.parametrize("path", DEBUG)
async def test_without_the_option_each_path_says_how_to_have_it(tmp_path: Path, path: str) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request(PATHS[path].method, path)
        assert (answer.status, answer.message) == (404, "NOT_FOUND")
        assert b"--debug-endpoints" in answer.headers[b"x-penstock-detail"]


async def test_threads_are_told_with_their_names_and_stacks(tmp_path: Path) -> None:
    release = threading.Event()

    def waits_here() -> None:
        release.wait()

    waiting = threading.Thread(target=waits_here, name="a-thread-of-the-test")
    waiting.start()
    try:
        async with http_server(tmp_path, debug_endpoints=True) as server:
            text = (await server.request("GET", "/debug/threads")).body.decode()
    finally:
        release.set()
        waiting.join()
    _, _, behind = text.partition("a-thread-of-the-test (thread ")
    stack = behind.partition("\n\n")[0]
    assert f"{Path(__file__).name}:" in stack
    assert " in waits_here\n        release.wait()" in stack
    assert "MainThread (thread " in text
    assert "penstock-answers" in text, "the thread that makes the text"


async def test_tasks_are_told_with_where_they_wait(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def inner() -> None:
        await release.wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer(), name="a-task-of-the-test")
    await asyncio.sleep(0)
    try:
        async with http_server(tmp_path, debug_endpoints=True) as server:
            text = (await server.request("GET", "/debug/tasks")).body.decode()
    finally:
        release.set()
        await task
    _, _, behind = text.partition("\na-task-of-the-test\n")
    calls = [line.rpartition(" in ")[2] for line in behind.partition("\n\n")[0].splitlines() if " in " in line]
    assert calls[:2] == ["outer", "inner"]
    assert "wait" in calls[2:]


class Kept:
    """Something to find in memory."""


async def test_memory_is_told_by_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TYPES_SHOWN", 100_000)
    kept = [Kept() for _ in range(1_234)]
    async with http_server(tmp_path, debug_endpoints=True) as server:
        text = (await server.request("GET", "/debug/memory")).body.decode()
    (line,) = (line for line in text.splitlines() if line.endswith("test_debug.Kept"))
    count, size, _ = line.split("\t")
    assert int(count) == len(kept)
    assert int(size) >= 1_234 * 16
    assert "heap_in_use_bytes" in text
    assert "tracemalloc is off" in text


def test_with_tracemalloc_memory_is_told_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_types", list)  # all objects of the tests' process take seconds
    tracemalloc.start()
    try:
        kept = bytearray(3_000_000)
        text = memory.memory_text()
    finally:
        tracemalloc.stop()
    assert len(kept) == 3_000_000
    sizes = [int(line.split("\t")[1]) for line in text.splitlines() if Path(__file__).name in line]
    assert any(3_000_000 <= size < 3_100_000 for size in sizes)


async def test_the_collector_is_told_and_freeing_memory_runs_it(tmp_path: Path) -> None:
    async with http_server(tmp_path, debug_endpoints=True) as server:
        before = gc.get_stats()[2]["collections"]
        answer = await server.request("POST", "/debug/freememory")
        assert (answer.status, answer.body) == (200, b"")
        assert gc.get_stats()[2]["collections"] > before
        rows = (await server.request("GET", "/debug/gc")).body.decode().splitlines()
        assert int(rows[-1].split("\t")[3]) > before
        assert [row.split("\t")[0] for row in rows[-3:]] == ["0", "1", "2"]


async def test_the_index_names_what_there_is_and_what_there_is_not(tmp_path: Path) -> None:
    async with http_server(tmp_path, debug_endpoints=True) as server:
        text = (await server.request("GET", "/debug/pprof/")).body.decode()
        for path in DEBUG:
            assert path in text or path in ("/debug/pprof/", "/debug/setblockrate")
        answer = await server.request("PUT", "/debug/setblockrate?rate=1")
        assert (answer.status, answer.message) == (501, "NOT_SUPPORTED")
        assert (await server.request("GET", "/debug/pprof/heap")).status == 404
