"""How descriptors are shared, and what is told of connections that are refused."""

from itertools import product

import pytest

from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.descriptor_shares import DescriptorShares
from tests.support.clock import ManualClock


def test_the_shares_fit_in_the_limit() -> None:
    for case in product((256, 400, 1_024, 4_096, 20_000, 65_536), (3, 200, 10_000)):
        limit, max_connections = case
        shares = DescriptorShares.of(limit, max_connections)
        assert min(shares.files, shares.console) >= 16, case
        assert min(shares.clients, shares.http) >= min(max_connections, 16), case
        used = shares.files + shares.clients + shares.http + 2 * shares.console
        assert used + 80 <= limit, case
        is_lowered = min(shares.clients, shares.http) < max_connections
        assert is_lowered is bool(shares.lowered(max_connections)), case


def test_without_a_console_its_share_is_for_the_others_and_nothing_is_said_of_it() -> None:
    with_one, without = DescriptorShares.of(1_024, 10_000), DescriptorShares.of(1_024, 10_000, has_console=False)
    assert without.console == 0
    assert without.clients + without.http == with_one.clients + with_one.http + 2 * with_one.console
    assert "console" in with_one.lowered(10_000)
    assert without.lowered(10_000) == (
        f"--max-connections is 10000 and the process may have 1024 descriptors: {without.clients} connections are for "
        f"NSQ clients, {without.http} for the HTTP API; for more, raise the hard limit (ulimit -Hn, systemd's "
        "LimitNOFILE)"
    )


def test_refused_connections_are_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    refused = RefusedConnections("tcp", 90, clock)
    for _ in range(600):
        refused.note()
        clock.advance(ns=NS_PER_S // 5)
    assert [record.getMessage().split(":")[1][:12] for record in caplog.records] == [" 1 more than", " 300 more th"]
