"""Growth of counters, spread over the seconds between two readings of a node."""

from admin_console.cluster.merging.growth import GrowthLedger
from admin_console.cluster.merging.merged import Growth

A, B = "nsq-a", "nsq-b"
BILLING, MAILS = ("orders", "billing"), ("orders", "mails")


def grown(messages: int) -> Growth:
    return Growth((messages, 0, 0, 0), (messages, 0, 0, 0))


def test_a_rate_beside_one_a_million_times_greater_ends_at_its_own_time_and_costs_no_other() -> None:
    """The greater one's end took the smaller one's with it, whose own end raised KeyError then: no snapshot of the
    cluster came in that second, and the rates that ended with it went on for ever."""
    ledger = GrowthLedger()
    ledger.add({BILLING: grown(1 << 62), MAILS: grown(40)}, A, 1)
    ledger.add({BILLING: grown(1)}, B, 3, 1e-6)  # of a node that was silent for months
    ledger.add({MAILS: grown(4)}, B, 3)
    counts = [ledger.take().get(MAILS, grown(0)).spread[0] for _ in range(6)]
    assert counts == [21, 21, 1, 1, 0, 0]
    assert ledger.take() == {}


def test_what_is_less_than_a_whole_message_waits_for_its_rest() -> None:
    ledger = GrowthLedger()
    ledger.add({MAILS: grown(2)}, A, 4)
    assert [ledger.take().get(MAILS, grown(0)).spread[0] for _ in range(6)] == [0, 0, 1, 0, 1, 0]
