"""The words of a client's row: layers, sampling, and who it is."""

from typing import Any

from admin_console.screens import connections
from queue_engine.delivery.stats import ClientStats

PLAIN: dict[str, Any] = {
    "client_key": 1,
    "client_id": "a",
    "hostname": "h",
    "user_agent": "pynsq",
    "remote_address": "192.0.2.1:5",
    "version": "V2",
    "state": 3,
    "ready_count": 1,
    "in_flight_count": 0,
    "message_count": 0,
    "finish_count": 0,
    "requeue_count": 0,
    "timeout_count": 0,
    "connect_ts": 0,
    "msg_timeout_ms": 60_000,
}


def test_a_row_names_the_identity_and_its_page() -> None:
    plain = ClientStats(**PLAIN)
    assert (connections.layers(plain), connections.title(plain)) == ("", "")
    authed = ClientStats(**PLAIN, authed=True, auth_identity="deploy", auth_identity_url="https://who.example/deploy")
    assert connections.agreed(authed).endswith(" · as deploy")
    assert connections.layers(authed) == "as deploy"
    assert connections.title(authed) == "https://who.example/deploy"
    assert connections.layers(ClientStats(**PLAIN, authed=True)) == "with AUTH"
