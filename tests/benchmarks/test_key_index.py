"""The benchmark of the key index at a small size: it finds what it published, and its figures are there.

Times are not judged on a machine that may be busy: what is judged does not depend on it.
"""

from pathlib import Path

import pytest

from queue_engine.storage.commit_log.options import SyncPolicy
from tests.benchmarks.key_index import look_ups, publish_ratios

pytestmark = pytest.mark.slow(reason="writes and finds seventy thousand keys")


def test_look_ups_find_each_key_in_few_bytes(tmp_path: Path) -> None:
    figures = look_ups(tmp_path, 70_000, count=20)
    assert figures["files"] == 2
    assert 4 < figures["bytes a message"] < 9
    assert figures["warm, p50 ms"] > 0


def test_publishing_is_compared_with_a_store_without_an_index(tmp_path: Path) -> None:
    for each in (1, 50):
        took = publish_ratios(tmp_path / str(each), SyncPolicy.OS, each=each, rounds=1, batches=100)
        assert min(took) > 0
    assert not (tmp_path / "1" / "without" / "keys").exists()
