"""`penstock forward`: publishes the messages of topics to other servers."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.tool_command import ToolCommand, node_argument, topic_argument
from queue_engine.client.tools.forward import Forward, ForwardOptions
from queue_engine.client.tools.running import Stopping, progress


class Command(ToolCommand):
    help = (
        "Publish the messages of topics to other servers, each to one of them in turn. A message is finished when a "
        "server has taken it; it may arrive twice when a server is lost before its answer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--topic", type=topic_argument, action="append", required=True, help="repeat it for several"
        )
        parser.add_argument("--destination-topic", metavar="TOPIC", type=topic_argument, help="(default: as it came)")
        parser.add_argument(
            "--destination-nsqd-tcp-address", metavar="HOST:PORT", type=node_argument, action="append", required=True,
            help="repeat it for several",
        )  # fmt: skip
        parser.add_argument(
            "--require-json-field", metavar="NAME", default="", help="forward only objects that have it"
        )
        parser.add_argument("--require-json-value", metavar="TEXT", help="and only where it is this")
        parser.add_argument(
            "--whitelist-json-field", metavar="NAME", action="append", default=[], help="forward these fields alone"
        )
        self.add_retry_arguments(parser)
        self.add_consumer_arguments(parser, channel="nsq_to_nsq")
        self.add_progress_argument(parser)

    def handle(self, **given: Any) -> None:
        connecting = self.connecting(given)
        if given["require_json_value"] is not None and not given["require_json_field"]:
            raise CommandError("--require-json-value needs --require-json-field")
        destinations = given["destination_nsqd_tcp_address"]
        same = set(destinations) & set(connecting.nodes)
        if same and given["destination_topic"] in (None, *given["topic"]):
            raise CommandError(f"{min(same)} would get its own messages again and again: give a --destination-topic")
        tool = Forward(
            connecting,
            ForwardOptions(
                topics=given["topic"],
                channel=given["channel"],
                destinations=destinations,
                destination_topic=given["destination_topic"] or "",
                max_in_flight=given["max_in_flight"],
                required_field=given["require_json_field"],
                required_value=given["require_json_value"],
                kept_fields=given["whitelist_json_field"],
                attempts_max=given["max_attempts"],
                backoff_s_max=given["max_backoff_duration"] / 1000,
            ),
        )

        async def work(stopping: Stopping) -> None:
            async with progress(tool.counts, "forwarded", self.tell, given["status_interval"] / 1000):
                await tool.run(stopping)

        self.run(work)
