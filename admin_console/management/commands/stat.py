"""`penstock stat`: prints the figures of topics and channels."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.tool_command import (
    ToolCommand,
    channel_argument,
    count_argument,
    duration_argument,
    topic_argument,
    url_argument,
)
from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.stat import StatOptions, stat


class Command(ToolCommand):
    help = "Print the figures of topics and channels, summed over all servers, every few seconds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--topic", type=topic_argument, help="this topic alone")
        parser.add_argument("--channel", type=channel_argument, help="this channel alone")
        parser.add_argument(
            "--interval",
            metavar="DURATION",
            type=duration_argument,
            default=2_000,
            help="between two tables (default: 2s)",
        )
        parser.add_argument("--count", metavar="N", type=count_argument, default=0, help="end after N tables")
        parser.add_argument(
            "--nsqd-http-address", metavar="HOST:PORT", type=url_argument, action="append", default=[],
            help="or an http or https URL; repeat it for several",
        )  # fmt: skip
        parser.add_argument(
            "--lookupd-http-address",
            metavar="HOST:PORT",
            type=url_argument,
            action="append",
            default=[],
            help="of an nsqlookupd, whose servers are all queried; repeat it for several",
        )
        self.add_secret_hosts_argument(parser)
        self.add_tls_arguments(parser)

    def handle(self, **given: Any) -> None:
        if bool(given["nsqd_http_address"]) == bool(given["lookupd_http_address"]):
            raise CommandError(
                "give either --nsqd-http-address HOST:PORT or --lookupd-http-address HOST:PORT, not both"
            )
        if given["channel"] and not given["topic"]:
            raise CommandError("--channel needs --topic")
        connecting = self.connecting(given)
        options = StatOptions(
            topic=given["topic"] or "",
            channel=given["channel"] or "",
            interval_s=max(given["interval"] / 1000, 0.1),
            count=given["count"],
            http_urls=given["nsqd_http_address"],
        )

        async def work(stopping: Stopping) -> None:
            await stat(connecting, options, lambda line: print(line, flush=True), self.tell, stopping)

        self.run(work)
