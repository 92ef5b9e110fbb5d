"""Figures for Prometheus: its text format, every line well formed, the numbers those of /stats."""

import re
from pathlib import Path

from tests.service.http.server import http_server
from tests.support.engine import Client, settle

_SAMPLE = re.compile(r'[a-z_]+(\{topic="[^"]+"(,channel="[^"]+")?\})? [0-9.e+-]+\Z')


async def test_every_figure_has_help_a_type_and_a_value(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for body in (b"one", b"two", b"three"):
            await server.request("POST", "/pub?topic=orders", body)
        await server.request("POST", "/channel/create?topic=orders&channel=billing")
        settle(server.engine)
        client = Client(server.engine, "orders", "billing", ready=2)
        client.finish(client.sink.received[0].id)
        client.ready(1)
        answer = await server.request("GET", "/metrics")
        assert answer.status == 200
        assert answer.headers[b"content-type"] == b"text/plain; version=0.0.4; charset=utf-8"
        lines = answer.body.decode().splitlines()
        samples = [line for line in lines if not line.startswith("#")]
        assert [line for line in samples if not _SAMPLE.match(line)] == []
        names = {line.partition("{")[0].partition(" ")[0] for line in samples}
        told = {line.split()[2] for line in lines if line.startswith("# TYPE")}
        assert names <= told == {line.split()[2] for line in lines if line.startswith("# HELP")}
        figures = dict(line.rsplit(" ", 1) for line in samples)
        assert figures["penstock_up"] == "1"
        assert figures['penstock_topic_messages_total{topic="orders"}'] == "3"
        assert figures['penstock_channel_finished_total{topic="orders",channel="billing"}'] == "1"
        assert figures['penstock_channel_in_flight{topic="orders",channel="billing"}'] == "2"
        assert figures['penstock_channel_depth{topic="orders",channel="billing"}'] == "0"
