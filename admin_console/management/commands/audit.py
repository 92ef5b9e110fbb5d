"""`penstock audit verify`: checks whether the audit list is as it was written."""

import sqlite3
from argparse import ArgumentParser
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console.audit import head_file
from admin_console.audit.head_file import HeadFileError
from admin_console.audit.verification import ChainCheck, all_rows, id_of_hash, open_to_read
from admin_console.database.inspection import applied_migrations, damage_of
from admin_console.database.version import complaint_about_version
from admin_console.gateway.sentences import counted
from admin_console.management.command import DamageFound, PlainCommand

FAULTS_SHOWN = 100
_CHAINED = ("admin_console", "0003_audit_is_chained")


class Command(PlainCommand):
    uses_data_path = True
    help = "Check the audit list; the server may run meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        verify = verbs.add_parser("verify", help="name every row that was changed, removed, moved or put in")
        verify.add_argument(
            "--head",
            metavar="FILE",
            help=f"a copy of the file {head_file.NAME} to compare with, instead of the one in the data directory",
        )

    def handle(self, *, verb: str, head: str | None, **_: Any) -> None:
        path = Path(settings.DATABASES["default"]["NAME"])
        if not path.exists():
            raise CommandError(f"{path} is not there: there is no audit list yet.")
        if complaint := complaint_about_version(path):
            raise CommandError(complaint)
        if head is not None and not Path(head).is_file():
            raise CommandError(f"--head {head} is no file that can be read.")
        try:
            migrations = applied_migrations(path)
            if not migrations and (damage := damage_of(path)):
                raise CommandError(f"{path} can't be read: it is {damage}.")
            if _CHAINED not in migrations:
                raise CommandError(f"The rows of {path} have no hashes yet: the next start of the server makes them.")
            self._verify(path, Path(head) if head is not None else head_file.path_of(settings.DATA_PATH))
        except sqlite3.Error as exc:
            raise CommandError(f"{path} can't be read: {exc}") from exc

    def _verify(self, path: Path, head_path: Path) -> None:
        faults: list[str] = []
        # Before the rows: later rows come behind it.
        try:
            head = head_file.read_head(head_path)
        except HeadFileError as exc:
            head = None
            faults.append(str(exc))
        with closing(open_to_read(path)) as database:
            database.execute("BEGIN")
            check = ChainCheck(head)
            for row in all_rows(database):
                check.take(row)
            faults += check.faults(partial(id_of_hash, database))
        if head is None and not faults:
            raise DamageFound(
                f"The {counted(check.row_count, 'row')} of the audit list that are there ({path}) are as they were "
                f"written, the newest is {check.last_id}. But {head_path} is missing, so rows may have been cut off at "
                f"the end. A copy of {head_file.NAME} from a backup or another machine proves whether they were: "
                "penstock audit verify --head COPY. A running server writes the file anew, for the rows that are left."
            )
        if faults:
            lines = [f"  {fault}" for fault in faults[:FAULTS_SHOWN]]
            if len(faults) > FAULTS_SHOWN:
                lines.append(f"  … and {len(faults) - FAULTS_SHOWN:,} more.")
            raise DamageFound("\n".join([f"The audit list is not as it was written ({path}):", *lines]))
        self.stdout.write(
            f"The audit list is as it was written: {counted(check.row_count, 'row')}, the newest is {check.last_id}."
        )
        assert head is not None, "a missing file is a fault"
        self.stdout.write(f"{head_path} agrees: it names row {head.id}.")
