"""The console's work for each snapshot, at a fifth of the channels and with three times the time it may take."""

import pytest

from tests.benchmarks.live_figures import FRAME_BYTES_MAX, TARGET_MS, TOPICS, measure

pytestmark = pytest.mark.slow(reason="measures a thousand channels for many seconds of their time")

SHARE = 5
PATIENCE = 3  # processor time, but other work of the machine takes its caches


def test_a_thousand_channels_cost_a_fifth_of_what_five_thousand_may() -> None:
    cost = measure(45, topics=TOPICS // SHARE, typical=min)
    assert cost.findings == 20
    assert cost.diagnosis_ms <= PATIENCE * TARGET_MS / SHARE, cost.line("healthy")
    assert cost.rings_ms <= PATIENCE * TARGET_MS / SHARE, cost.line("healthy")
    assert cost.rings_bytes <= (128 << 20) / SHARE, cost.line("healthy")
    assert 5_000 < cost.frame_bytes <= FRAME_BYTES_MAX, cost.line("healthy")


@pytest.mark.parametrize(("name", "ill"), [("waiting", 1_000), ("failing", 1_000), ("mixed", 667)])
def test_a_thousand_channels_cost_no_more_when_they_are_ill(name: str, ill: int) -> None:
    cost = measure(42, name, topics=TOPICS // SHARE, typical=min)
    assert cost.findings == ill
    assert cost.settled == 0, "no page shows them: making their sentences cost more than all else"
    assert cost.diagnosis_ms <= PATIENCE * TARGET_MS / SHARE, cost.line(name)
