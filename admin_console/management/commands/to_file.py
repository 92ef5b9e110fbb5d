"""`penstock to_file`: writes the messages of topics to files."""

import os
import re
from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.tool_command import (
    ToolCommand,
    count_argument,
    duration_argument,
    topic_argument,
)
from queue_engine.client.tools.running import Stopping, progress
from queue_engine.client.tools.to_file import ToFile, ToFileOptions
from queue_engine.client.tools.topic_file import DATETIME_DEFAULT, FILENAME_DEFAULT, FileLayout, make_directories


class Command(ToolCommand):
    help = (
        "Write the messages of topics to files, a line each. A message is finished once it is on the disk: after a "
        "kill it comes again, and none is missing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--topic", type=topic_argument, action="append", default=[], help="repeat it for several")
        parser.add_argument(
            "--topic-pattern",
            metavar="REGEX",
            default="",
            help="also topics that nsqlookupds list and that match it as a whole",
        )
        parser.add_argument(
            "--topic-refresh", metavar="DURATION", type=duration_argument, default=60_000,
            help="how often new topics are looked for (default: 1m)",
        )  # fmt: skip
        parser.add_argument(
            "--output-dir",
            metavar="DIR",
            default=".",
            help="it is made if it is missing (default: the current directory)",
        )
        parser.add_argument("--work-dir", metavar="DIR", default="", help="where files are until they are complete")
        parser.add_argument(
            "--filename-format", metavar="PATTERN", default=FILENAME_DEFAULT,
            help=f"of <TOPIC> <HOST> <PID> <DATETIME> <REV> (default: {FILENAME_DEFAULT})",
        )  # fmt: skip
        parser.add_argument(
            "--datetime-format", metavar="STRFTIME", default=DATETIME_DEFAULT,
            help=f"when another file begins, UTC (default: {DATETIME_DEFAULT})".replace("%", "%%"),
        )  # fmt: skip
        parser.add_argument(
            "--host-identifier", metavar="NAME", default="", help="<HOST> (default: this machine's name)"
        )
        parser.add_argument("--gzip", action="store_true", help="compress the files")
        parser.add_argument("--gzip-level", metavar="N", type=count_argument, default=6, help="1 to 9 (default: 6)")
        parser.add_argument(
            "--rotate-size", metavar="BYTES", type=count_argument, default=0,
            help="begin another file when one has so many (default: 0, never)",
        )  # fmt: skip
        parser.add_argument(
            "--rotate-interval", metavar="DURATION", type=duration_argument, default=0,
            help="begin another file when one is so old (default: 0, never)",
        )  # fmt: skip
        parser.add_argument(
            "--sync-interval", metavar="DURATION", type=duration_argument, default=30_000,
            help="the longest that a message waits for its file to be synced (default: 30s)",
        )  # fmt: skip
        self.add_consumer_arguments(parser, channel="nsq_to_file")
        self.add_progress_argument(parser)

    def handle(self, **given: Any) -> None:
        connecting = self.connecting(given)
        layout = FileLayout(
            output_dir=given["output_dir"],
            work_dir=given["work_dir"],
            filename=given["filename_format"],
            datetime_format=given["datetime_format"],
            host=given["host_identifier"],
            gzip_level=given["gzip_level"] if given["gzip"] else 0,
            rotate_bytes=given["rotate_size"],
            rotate_interval_s=given["rotate_interval"] / 1000,
        )
        self._check(given, layout)
        if layout.work_dir and os.path.samefile(layout.work_dir, layout.output_dir):
            layout = replace(layout, work_dir="")  # as nsq_to_file, whose --work-dir is --output-dir unless it is given
        tool = ToFile(
            connecting,
            ToFileOptions(
                topics=given["topic"],
                channel=given["channel"],
                layout=layout,
                topic_pattern=given["topic_pattern"],
                topic_refresh_s=max(given["topic_refresh"] / 1000, 0.1),
                max_in_flight=given["max_in_flight"],
                sync_interval_s=given["sync_interval"] / 1000,
            ),
            self.tell,
        )

        async def work(stopping: Stopping) -> None:
            async with progress(tool.counts, "finished", self.tell, given["status_interval"] / 1000):
                await tool.run(stopping)

        self.run(work)

    def _check(self, given: dict[str, Any], layout: FileLayout) -> None:
        """Raises CommandError with a sentence, before anything is consumed."""
        try:
            layout.check()
            re.compile(given["topic_pattern"])
        except re.error as exc:
            raise CommandError(f"--topic-pattern {given['topic_pattern']!r} is no regular expression: {exc}") from exc
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        if not 1 <= given["gzip_level"] <= 9:
            raise CommandError(f"--gzip-level is {given['gzip_level']}: it can be 1 to 9")
        if not given["topic"] and not given["topic_pattern"]:
            raise CommandError("give --topic NAME or --topic-pattern REGEX")
        if given["topic_pattern"] and not given["lookupd_http_address"]:
            raise CommandError("--topic-pattern needs --lookupd-http-address: servers do not list their topics")
        for path in filter(None, (layout.output_dir, layout.work_dir)):
            try:
                make_directories(path)
            except OSError as exc:
                raise CommandError(f"{path} is no directory and can't be made one: {exc.strerror}") from exc
            if not os.access(path, os.W_OK | os.X_OK):
                raise CommandError(f"nothing can be written in {path}")
        if layout.work_dir and os.stat(layout.work_dir).st_dev != os.stat(layout.output_dir).st_dev:
            raise CommandError(
                "--work-dir and --output-dir are on different file systems: no file can be moved at once"
            )
