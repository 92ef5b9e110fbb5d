"""`penstock to_http`: sends the messages of a topic to HTTP addresses."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.tool_command import (
    ToolCommand,
    count_argument,
    duration_argument,
    number_argument,
    topic_argument,
)
from queue_engine.client.tools.running import Stopping, progress
from queue_engine.client.tools.to_http import ToHttp, ToHttpOptions


class Command(ToolCommand):
    help = (
        "Send each message of a topic as an HTTP request. A message is finished when an address has answered 2xx; "
        "else it is requeued, and less comes until an address takes some."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--topic", type=topic_argument, required=True)
        parser.add_argument(
            "--post",
            metavar="URL",
            action="append",
            default=[],
            help="where messages go as bodies; repeat it for several, used in turn",
        )
        parser.add_argument(
            "--get",
            metavar="URL",
            action="append",
            default=[],
            help="%%s in it stands for the message; for several, as --post",
        )
        parser.add_argument(
            "-n",
            "--requests",
            metavar="N",
            type=count_argument,
            default=100,
            help="most requests at once (default: 100)",
        )
        parser.add_argument(
            "--sample",
            metavar="SHARE",
            type=number_argument,
            default=1.0,
            help="send only this share of the messages, and finish the others (default: 1)",
        )
        parser.add_argument(
            "--content-type",
            metavar="TYPE",
            default="application/octet-stream",
            help="(default: application/octet-stream)",
        )
        parser.add_argument(
            "--header",
            metavar="NAME:VALUE",
            action="append",
            default=[],
            help="sent with each request; repeat it for several",
        )
        parser.add_argument(
            "--http-client-request-timeout", metavar="DURATION", type=duration_argument, default=20_000,
            help="how long an answer may take (default: 20s)",
        )  # fmt: skip
        self.add_retry_arguments(parser)
        self.add_consumer_arguments(parser, channel="nsq_to_http")
        self.add_progress_argument(parser)

    def handle(self, **given: Any) -> None:
        connecting = self.connecting(given)
        options = ToHttpOptions(
            topic=given["topic"],
            channel=given["channel"],
            post=given["post"],
            get=given["get"],
            requests=max(given["requests"], 1),
            max_in_flight=given["max_in_flight"],
            sample=given["sample"],
            content_type=given["content_type"],
            headers=[_header_of(text) for text in given["header"]],
            timeout_s=max(given["http_client_request_timeout"], 1) / 1000,
            attempts_max=given["max_attempts"],
            backoff_s_max=given["max_backoff_duration"] / 1000,
        )
        try:
            options.check()
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        tool = ToHttp(connecting, options)

        async def work(stopping: Stopping) -> None:
            async with progress(tool.counts, "sent", self.tell, given["status_interval"] / 1000):
                await tool.run(stopping)

        self.run(work)


def _header_of(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(mark in text for mark in "\r\n\0"):
        raise CommandError(f"--header {text[:80]!r} is not NAME:VALUE")
    return name.strip(), value.strip()
