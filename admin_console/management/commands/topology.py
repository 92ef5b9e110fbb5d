"""`penstock topology`: show, check, accept and rebuild the files that list topics and channels."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console.gateway.sentences import counted
from admin_console.management.command import DamageFound, PlainCommand
from queue_engine.engine.data_formats import DataFormats
from queue_engine.engine.topology.repair import Repaired, TopologyRepair, lines_of
from queue_engine.storage.disk.dirlock import DirectoryLock
from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import PenstockError

VERBS = {
    "show": "list topics and channels",
    "check": "check whether a server would start, and if not, print why",
    "accept": "accept topology.json as it is, also edited by hand, and write its checksum",
    "rebuild": "make topology.json from its predecessor, the changes and the log",
}


class Command(PlainCommand):
    uses_data_path = True
    help = "Show, check and repair topology.json, while no server runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb, text in VERBS.items():
            verbs.add_parser(verb, help=text)

    def handle(self, *, verb: str, **_: Any) -> None:
        directory = str(settings.DATA_PATH)
        try:
            with DirectoryLock(directory):
                DataFormats(directory, Files()).refuse_newer()
                getattr(self, f"_{verb}")(TopologyRepair(directory, Files()))
        except PenstockError as exc:
            raise CommandError(str(exc)) from exc

    def _show(self, repair: TopologyRepair) -> None:
        checked = repair.check()
        if checked.state is None:
            raise DamageFound("\n".join(checked.complaints))
        for line in lines_of(checked.state):
            self.stdout.write(line)

    def _check(self, repair: TopologyRepair) -> None:
        checked = repair.check()
        if checked.complaints:
            raise DamageFound("\n".join(checked.complaints))
        assert checked.state is not None
        self.stdout.write(f"All is well: {counted(len(checked.state.topics), 'topic')}.")

    def _accept(self, repair: TopologyRepair) -> None:
        self._tell(repair.accept())

    def _rebuild(self, repair: TopologyRepair) -> None:
        self._tell(repair.rebuild())

    def _tell(self, repaired: Repaired) -> None:
        for sentence in repaired.report:
            self.stdout.write(sentence)
        self.stdout.write(f"{counted(len(repaired.state.topics), 'topic')}. The file before is stored as ….previous.")
