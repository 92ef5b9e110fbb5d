"""Which connections a listener holds, and which goes for a new one; the table of what one client may hold."""

import re
from pathlib import Path

import pytest

from queue_engine.service.admission.connection_pool import ConnectionPool
from queue_engine.service.admission.refused_connections import RefusedConnections
from queue_engine.vocabulary.client_key import ClientKey
from tests.support.clock import ManualClock

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "queue_engine/service/admission/README.md"

ONE, OTHER, THIRD = (ClientKey.of(f"192.0.2.{number}") for number in (1, 2, 3))
MANY = ClientKey(())  # as a trusted proxy's


class Pool:
    """A pool of eight, whose connections are numbers."""

    def __init__(self) -> None:
        self.gone: list[int] = []
        self.pool: ConnectionPool[int] = ConnectionPool(RefusedConnections("http", 8, ManualClock()), self.gone.append)
        self._next = 0

    def enter(self, client: ClientKey, count: int = 1) -> int:
        """How many of so many new connections were let in; they get the next numbers."""
        entered = 0
        for _ in range(count):
            entered += not self.pool.enter(self._next, client)
            self._next += 1
        return entered


def test_a_client_s_own_longest_idle_goes_first() -> None:
    one = Pool()
    assert one.enter(ONE, 6) == 6
    assert one.enter(OTHER) == 1
    for number in (6, 3, 1):
        one.pool.idle(number)
    assert (one.enter(ONE), one.gone) == (1, [3])
    one.pool.busy(1)
    assert (one.enter(ONE), one.gone, len(one.pool)) == (0, [3], 7)
    assert one.pool.refused.by_reason() == {"too_many_of_one": 1}


def test_in_a_full_pool_the_longest_idle_goes_for_a_client_with_a_share_alone() -> None:
    one = Pool()
    assert one.enter(ONE, 6) + one.enter(OTHER) + one.enter(THIRD) == 8
    one.pool.idle(7)
    assert (one.enter(ONE), one.gone) == (0, [])
    assert one.enter(ClientKey.of("192.0.2.4")) == 1
    assert one.gone == [7]
    assert one.enter(ClientKey.of("192.0.2.5")) == 0
    assert one.pool.refused.by_reason() == {"too_many": 2}


def test_clients_behind_one_proxy_have_no_share_of_its_address() -> None:
    one = Pool()
    assert one.enter(MANY, 9) == 8
    one.pool.idle(5)
    assert (one.enter(ONE), one.gone) == (1, [5])


def test_an_identity_counts_once_it_is_found_and_what_ends_is_forgotten() -> None:
    one = Pool()
    for number in range(8):
        assert one.enter(ClientKey.of(f"192.0.2.{number}")) == 1
    keys = [ClientKey.of(f"192.0.2.{number}", "orders") for number in range(8)]
    told = [one.pool.identified(number, key) for number, key in enumerate(keys)]
    # All places are taken: of the identity as many as leave three times less free.
    assert told[0] == ""
    assert told[-1] == f"too many connections of token orders: {told.count('')} are open, its share of 8"
    assert one.pool.identified(0, keys[0]) == ""
    for number in range(8):
        one.pool.leave(number)
        one.pool.leave(number)
    assert (len(one.pool), one.pool._shares.used, one.pool._shares._held) == (0, 0, {})
    assert one.pool.identified(0, keys[0]) == ""


@pytest.mark.parametrize("number", range(13))
def test_each_row_of_the_table_names_tests_that_there_are(number: int) -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| ") and "`test_" in line]
    assert len(rows) == 13
    defined = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", rows[number]):
        assert f"def {name}(" in defined
