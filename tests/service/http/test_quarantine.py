"""The quarantine of a channel over HTTP: max attempts, redriving, cancelling; what /stats and /metrics say of it."""

from pathlib import Path
from typing import Any

import pytest

from admin_console.gateway.act_sentences import sentence_of
from tests.service.http.server import Server, http_server
from tests.support.engine import Client, pass_time, settle

BILLING = "topic=orders&channel=billing"


async def prepare(server: Server, count: int = 3) -> None:
    for target in ("/topic/create?topic=orders&storage=log", f"/channel/create?{BILLING}"):
        await server.request("POST", target)
    await server.request("POST", "/mpub?topic=orders", b"\n".join([b"x"] * count))
    settle(server.engine)


async def channel_of(server: Server) -> dict[str, Any]:
    (topic,) = (await server.request("GET", "/stats?format=json&include_mem=0")).json["topics"]
    channel: dict[str, Any] = topic["channels"][0]
    return channel


async def test_messages_are_quarantined_shown_redriven_and_audited(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        await prepare(server)
        answer = await server.request("POST", f"/channel/max_attempts?{BILLING}&max_attempts=1")
        assert (answer.status, answer.body) == (200, b"")
        Client(server.engine, "orders", "billing", ready=9).leave()
        channel = await channel_of(server)
        assert (channel["depth"], channel["quarantined_count"], channel["quarantined_bytes"]) == (0, 3, 3)
        assert (channel["max_attempts"], channel["quarantine_full"], channel["redrive"]) == (1, "", None)
        metrics = (await server.request("GET", "/metrics")).body.decode()
        assert 'penstock_channel_quarantined{topic="orders",channel="billing"} 3' in metrics
        assert 'penstock_quarantine_full{topic="orders",channel="billing"} 0' in metrics
        assert (await server.request("POST", f"/channel/redrive?{BILLING}&rate=2")).status == 200
        pass_time(server.engine, server.clock, 1_000)
        redrive = (await channel_of(server))["redrive"]
        assert (redrive["rate"], redrive["total"], redrive["done"], redrive["left"]) == (2, 3, 2, 1)
        assert (await server.request("POST", f"/channel/redrive/cancel?{BILLING}")).status == 200
        channel = await channel_of(server)
        assert (channel["depth"], channel["quarantined_count"], channel["redrive"]["ended"]) == (2, 1, "cancelled")
        # As the audit list makes them.
        told = [sentence_of(act.action, act.topic, act.channel, act.details, act.outcome) for act in server.acts[-3:]]
        assert told == [
            "Set max attempts of orders/billing to 1: messages that fail so often are quarantined.",
            "Redriving 3 messages of orders/billing at 2 messages/s.",
            "Cancelled the redrive of orders/billing: 1 message stays quarantined.",
        ]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (f"/channel/max_attempts?{BILLING}", "max_attempts is missing"),
        (
            f"/channel/max_attempts?{BILLING}&max_attempts=1001",
            "max_attempts=1001 is not a whole number from 0 to 1000",
        ),
        (f"/channel/redrive?{BILLING}&rate=0", "rate=0 is not a whole number from 1 to 10000"),
        (f"/channel/redrive?{BILLING}&keep_attempts=x", "keep_attempts=x can be true or false"),
    ],
)
async def test_bad_parameters_are_named(tmp_path: Path, target: str, told: str) -> None:
    async with http_server(tmp_path) as server:
        await prepare(server)
        answer = await server.request("POST", target)
        assert answer.status == 400
        assert told in answer.body.decode()
