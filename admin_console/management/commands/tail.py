"""`penstock tail`: prints the messages of topics as they come."""

from argparse import ArgumentParser
from typing import Any

from admin_console.management.command import write_out
from admin_console.management.tool_command import ToolCommand, count_argument, topic_argument
from queue_engine.client.tools.running import Stopping
from queue_engine.client.tools.tail import TailOptions, own_channel, tail


class Command(ToolCommand):
    help = (
        "Print the messages of topics, a line each, as they come. Without --channel it has an #ephemeral channel of "
        "its own, so that it takes no messages from other channels; messages of a topic without channels go to "
        "it, as to any first one."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--topic", type=topic_argument, action="append", required=True, help="repeat it for several"
        )
        parser.add_argument("-n", "--count", metavar="N", type=count_argument, default=0, help="end after N messages")
        parser.add_argument("--print-topic", action="store_true", help="print each message's topic before it")
        self.add_consumer_arguments(parser, channel=own_channel())

    def handle(self, **given: Any) -> None:
        connecting = self.connecting(given)
        options = TailOptions(
            topics=given["topic"],
            channel=given["channel"],
            count=given["count"],
            print_topic=given["print_topic"],
            max_in_flight=given["max_in_flight"],
        )

        async def work(stopping: Stopping) -> None:
            await tail(connecting, options, write_out, stopping)

        self.run(work)
