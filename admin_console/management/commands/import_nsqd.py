"""`penstock import_nsqd DIR`: copies the topics of nsqd's data directory into the log of a server that runs."""

import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from admin_console.management.command import PlainCommand
from queue_engine.daemon.nsqd_import.import_client import ImportClient
from queue_engine.daemon.nsqd_import.nsqd_import import NsqdImport
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.option import environment_name_of

TOKEN_VARIABLE = environment_name_of("http_token")
URL_DEFAULT = "http://127.0.0.1:4151"


class Command(PlainCommand):
    help = (
        "Copy the topics of DIR, a data directory of nsqd, into topics of the log on a server that runs. Killed, it "
        "goes on when it is run again. Files of copied topics move to penstock-imported in DIR; none is deleted. "
        f"The server's token comes from {TOKEN_VARIABLE}."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", metavar="DIR", help="neither nsqd nor a server may run on it")
        parser.add_argument("--url", default=URL_DEFAULT, help=f"the server's HTTP API (default: {URL_DEFAULT})")

    def handle(self, *, source: str, url: str, **_: Any) -> None:
        try:
            with (
                ImportClient(url, os.environ.get(TOKEN_VARIABLE, "")) as client,
                NsqdImport(source, client, self._print) as nsqd_import,
            ):
                is_complete = nsqd_import.run()
        except (PenstockError, OSError) as exc:
            raise CommandError(str(exc)) from exc
        if not is_complete:
            sys.exit(1)
        self._print(f"All messages of {source} are imported")

    def _print(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
