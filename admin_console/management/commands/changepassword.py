"""Django's own `changepassword` would go round the audit list."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Refused: use `manage.py user password NAME`."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("given", nargs="*")

    def handle(self, *args: Any, **options: Any) -> None:
        raise CommandError("use `manage.py user password NAME`: it ends the user's sessions, and the audit list has it")
