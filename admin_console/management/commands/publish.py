"""`penstock publish`: publishes the lines of standard input."""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.tool_command import (
    ToolCommand,
    duration_argument,
    node_argument,
    number_argument,
    topic_argument,
)
from queue_engine.client.tools.publish import PublishOptions, publish
from queue_engine.client.tools.running import Counts, Stopping, progress


class Command(ToolCommand):
    help = (
        "Publish the lines of standard input, each as a message, to every given server. It ends with status "
        "0 when all of it is published; when a server fails, it prints the published count."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--topic", type=topic_argument, required=True)
        parser.add_argument(
            "--nsqd-tcp-address", metavar="HOST:PORT", type=node_argument, action="append", required=True,
            help="repeat it for several; each gets every message",
        )  # fmt: skip
        parser.add_argument(
            "--delimiter", metavar="CHARACTER", default="\n", help="the end of a message (default: newline)"
        )
        parser.add_argument(
            "--rate", metavar="N", type=number_argument, default=0.0, help="messages a second (default: no limit)"
        )
        parser.add_argument(
            "--defer",
            metavar="DURATION",
            type=duration_argument,
            default=0,
            help="channels hold each message back so long",
        )
        self.add_tls_arguments(parser)
        self.add_progress_argument(parser)

    def handle(self, **given: Any) -> None:
        connecting = self.connecting(given)
        options = PublishOptions(
            topic=given["topic"],
            nodes=given["nsqd_tcp_address"],
            delimiter=given["delimiter"].encode("utf-8", "surrogateescape"),
            rate=given["rate"],
            defer_ms=given["defer"],
        )
        try:
            options.check()
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        counts = Counts("published")
        descriptor = sys.stdin.fileno()

        async def work(stopping: Stopping) -> None:
            async with progress(counts, "published", self.tell, given["status_interval"] / 1000):
                await publish(connecting, options, lambda size: os.read(descriptor, size), counts, stopping)

        self.run(work)
