"""The benchmark of the cluster's reading, at a tenth of its size: an open page has a change in time."""

from pathlib import Path

import pytest

from tests.benchmarks.cluster_reads import SHARE_MAX, SHOWN_S_MAX, Nodes, cluster_reads

PATIENCE = 3  # the machine may be busy with other tests

pytestmark = pytest.mark.slow(reason="reads a simulated cluster for some seconds")


def test_a_change_on_the_open_page_is_shown_in_time_and_reading_takes_its_share(tmp_path: Path) -> None:
    with Nodes(5, 20, 5, 200) as nodes:
        found = cluster_reads(tmp_path, nodes, 200, seconds=1, changes=2)
    assert max(found.shown_s) <= PATIENCE * SHOWN_S_MAX, found.lines()
    assert found.parts["a topic's page"].share <= PATIENCE * SHARE_MAX, found.lines()
