"""Pausing and resuming over HTTP: why, how long, how slowly; and what /stats and /metrics say of it."""

from pathlib import Path

import pytest

from queue_engine.vocabulary.acts.parameters import TIME_MS_MOST
from queue_engine.vocabulary.clock import NS_PER_MS
from tests.service.http.server import Server, http_server
from tests.support.engine import pass_time, settle

BILLING = "topic=orders&channel=billing"


async def prepare(server: Server) -> None:
    for target in ("/topic/create?topic=orders", f"/channel/create?{BILLING}", "/pub?topic=orders"):
        await server.request("POST", target, b"x" if "pub" in target else b"")
    settle(server.engine)


async def channel_of(server: Server) -> dict[str, object]:
    (topic,) = (await server.request("GET", "/stats?format=json&include_mem=0")).json["topics"]
    channel: dict[str, object] = topic["channels"][0]
    return channel


async def test_a_pause_with_a_reason_and_an_end_is_in_the_stats_and_the_audit_list(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await prepare(server)
        now_ms = server.clock.time_ns() // NS_PER_MS
        answer = await server.request("POST", f"/channel/pause?{BILLING}&reason=bad+deploy&for=15m")
        assert (answer.status, answer.body) == (200, b"")
        channel = await channel_of(server)
        record = server.acts[-1]
        assert channel["paused"] is True
        assert channel["pause"] == {
            "by": record.remote_address,
            "reason": "bad deploy",
            "since_ms": now_ms,
            "until_ms": now_ms + 900_000,
            "depth": 1,
        }
        assert (record.action, record.details["reason"], record.details["for_ms"]) == (
            "pause_channel",
            "bad deploy",
            900_000,
        )
        await server.request("POST", f"/channel/pause?{BILLING}&until={now_ms + 60_000}")
        assert (await channel_of(server))["pause"]["until_ms"] == now_ms + 60_000
        await server.request("POST", f"/channel/unpause?{BILLING}&ramp=5m")
        channel = await channel_of(server)
        assert (channel["paused"], channel["pause"]) == (False, None)
        assert channel["ramp"] == {"from_ms": now_ms, "until_ms": now_ms + 300_000}


async def test_nsqd_s_plain_calls_go_on_to_work(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await prepare(server)
        for target in ("/topic/pause?topic=orders", f"/channel/pause?{BILLING}", f"/channel/pause?{BILLING}"):
            assert (await server.request("POST", target)).status == 200
        pause = (await channel_of(server))["pause"]
        assert (pause["reason"], pause["until_ms"]) == ("", 0)
        for target in ("/topic/unpause?topic=orders", f"/channel/unpause?{BILLING}"):
            assert (await server.request("POST", target)).status == 200
        assert (await channel_of(server))["paused"] is False


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("pause?{}&for=15", "for=15 is not a duration such as 90s or 1h30m"),
        ("pause?{}&for=9000h", "for=9000h is longer than 8784h"),
        ("pause?{}&until=soon", f"until=soon is not a whole number from 0 to {TIME_MS_MOST}"),
        ("pause?{}&until=1", "the end 1 is not within 366 days from now, which is 1500000000000 (Unix milliseconds)"),
        ("pause?{}&until=1&for=1m", "for and until are both given: they name two ends"),
        ("pause?{}&reason=" + "x" * 201, "reason has 201 characters and the most is 200"),
        ("unpause?{}&ramp=2h", "ramp=2h is longer than 1h"),
        ("unpause?{}&ramp=", "ramp= is not a duration such as 90s or 1h30m"),
    ],
)
async def test_wrong_values_are_named_and_change_nothing(tmp_path: Path, target: str, told: str) -> None:
    async with http_server(tmp_path) as server:
        await prepare(server)
        for path, names in (("/topic/", "topic=orders"), ("/channel/", BILLING)):
            answer = await server.request("POST", path + target.format(names))
            assert (answer.status, answer.message, answer.detail) == (400, "INVALID_REQUEST", told)
            assert server.acts[-1].error == f"INVALID_REQUEST: {told}"
        assert (await channel_of(server))["paused"] is False


async def test_metrics_say_how_long_and_how_much_too_long(tmp_path: Path) -> None:
    async with http_server(tmp_path, pause_limit_ms=60_000) as server:
        await prepare(server)
        await server.request("POST", f"/channel/pause?{BILLING}")
        await server.request("POST", "/topic/pause?topic=orders&for=1h")
        pass_time(server.engine, server.clock, 100_000)
        lines = (await server.request("GET", "/metrics")).body.decode().splitlines()
        of = '{topic="orders",channel="billing"} '
        values = dict(line.rsplit(" ", 1) for line in lines if "paused_seconds" in line or "pause_overdue" in line)
        found = {name: value for name, value in values.items() if not name.startswith("#")}
        assert found == {
            f"penstock_channel_paused_seconds{of.strip()}": "100",
            f"penstock_channel_pause_overdue_seconds{of.strip()}": "40",
            'penstock_topic_paused_seconds{topic="orders"}': "100",
            'penstock_topic_pause_overdue_seconds{topic="orders"}': "0",
        }
