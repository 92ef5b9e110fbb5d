"""Requests refused for their Host or Origin are counted, and are a line of the log once a minute and reason."""

from collections import Counter

import pytest

from queue_engine.service.admission.refused_publishes import Reason
from queue_engine.service.admission.refused_requests import RefusedRequests
from tests.support.clock import ManualClock


def test_a_line_a_minute_counts_what_was_refused_since_the_last(caplog: pytest.LogCaptureFixture) -> None:
    clock, counts = ManualClock(), Counter[str]()
    refused = RefusedRequests(clock, counts)
    for _ in range(600):  # a minute, less a tenth of a second
        refused.note(Reason.HOST, "192.0.2.7:5000", "GET /metrics was refused: Host a is not a name of this server.")
        clock.advance(ms=99.9)
    assert len(caplog.records) == 1
    clock.advance(ms=60)
    refused.note(Reason.ORIGIN, "192.0.2.7:5000", "POST /pub was refused: requests from pages of b are refused.")
    refused.note(Reason.HOST, "192.0.2.7:5000", "GET /metrics was refused: Host c is not a name of this server.")
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "HTTP requests refused for their Host (--allowed-host): 1",
        "HTTP requests refused for their Origin (--allowed-host): 1",
        "HTTP requests refused for their Host (--allowed-host): 600",
    ]
    assert "the last one, of 192.0.2.7:5000: GET /metrics" in caplog.records[2].getMessage()
    assert counts == {"host": 601, "origin": 1}
