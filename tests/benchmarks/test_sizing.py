"""Memory, disk and descriptors of a small server: less than planned for, and all of them there."""

import pytest

from tests.benchmarks import sizing
from tests.benchmarks.sizing import BODY, MIB, of_clients, of_messages, of_topics

# What the README tells operators to plan; the benchmark has the figures themselves.
TOPIC_KIB_MAX = 400
CLIENT_KIB_MAX = 40
RECORD_BYTES_MAX = 90
CACHE_MIB = 32  # --log-cache-bytes

pytestmark = [pytest.mark.slow(reason="measures real servers"), pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def _settled_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits here leave room for what is not settled after a second."""
    monkeypatch.setattr(sizing, "SETTLE_S", 1.0)


def test_a_topic_with_its_channel_takes_no_more_than_planned() -> None:
    found = of_topics(100)
    assert (found["topics_memory_mib"] - found["empty_memory_mib"]) * 1024 < 100 * TOPIC_KIB_MAX
    # A file of its consume queue may be open for each.
    assert found["topics_descriptors"] - found["empty_descriptors"] <= 2 * 100


def test_a_client_takes_a_descriptor_and_no_more_memory_than_planned() -> None:
    found = of_clients(500)
    assert (found["clients_memory_mib"] - found["clientless_memory_mib"]) * 1024 < 500 * CLIENT_KIB_MAX
    assert 500 <= found["clients_descriptors"] - found["clientless_descriptors"] < 600


def test_a_backlog_lies_on_the_disk_and_not_in_memory() -> None:
    fewer, more = of_messages(200_000), of_messages(1_000_000)
    bytes_a_message = (more["messages_disk_mib"] - fewer["messages_disk_mib"]) * MIB / 800_000
    assert len(BODY) < bytes_a_message < len(BODY) + RECORD_BYTES_MAX
    assert more["messages_memory_mib"] - fewer["messages_memory_mib"] < CACHE_MIB
    assert more["messages_restart_mib"] - fewer["messages_restart_mib"] < CACHE_MIB
