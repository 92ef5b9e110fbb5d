"""A commit log for each test, on files that can fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from tests.support.stores.commit_log import LogBench, MakeBench


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeBench]:
    benches: list[LogBench] = []

    def make_bench(policy: SyncPolicy = SyncPolicy.ALWAYS, **options: Any) -> LogBench:
        benches.append(LogBench(tmp_path / f"log{len(benches)}", policy, **options))
        return benches[-1]

    yield make_bench
    for bench in benches:
        bench.files.abandon()
