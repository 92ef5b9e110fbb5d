"""`penstock user`: add, list, change and disable the users of the console.

A change and its audit row are one transaction: neither is there without the other.
"""

import getpass
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from argon2.exceptions import HashingError
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.contrib.sessions.models import Session
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import DatabaseError, transaction

from admin_console.accounts.first_admin import forget_password_file
from admin_console.accounts.models import User, check_username
from admin_console.audit.record import record_command
from admin_console.database.errors import Trouble, trouble_of
from admin_console.database.version import complaint_about_version
from admin_console.management.command import PlainCommand
from admin_console.paths import account_name
from admin_console.vocabulary.roles import Role


class Command(PlainCommand):
    uses_data_path = True
    help = "Add, list, change and disable the users of the console."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        add = verbs.add_parser("add", help="add a user")
        add.add_argument("name")
        add.add_argument("--role", required=True, choices=[one.value for one in Role])
        role = verbs.add_parser("role", help="give a user another role")
        role.add_argument("name")
        role.add_argument("role", choices=[one.value for one in Role])
        password = verbs.add_parser("password", help="set a user's password; ends the user's sessions")
        password.add_argument("name")
        for parser_with_password in (add, password):
            parser_with_password.add_argument(
                "--password-stdin", action="store_true", help="read the password from the first line of standard input"
            )
        for verb, text in (
            ("disable", "keep a user from logging in; ends the user's sessions"),
            ("enable", "let a disabled user log in again"),
        ):
            verbs.add_parser(verb, help=text).add_argument("name")
        verbs.add_parser("list", help="list all users")

    def handle(self, *, verb: str, **options: Any) -> None:
        path = Path(settings.DATABASES["default"]["NAME"])
        if not os.path.lexists(path):
            # SQLite would make an empty one.
            raise CommandError(
                f"{path} is not there: there are no users yet. The first `penstock serve` makes an admin."
            )
        if complaint := complaint_about_version(path):
            raise CommandError(complaint)
        try:
            getattr(self, f"_{verb}")(**options)
        except DatabaseError as exc:
            if trouble_of(exc) is Trouble.NONE:
                raise
            raise CommandError(f"The console's database can't be used: {exc}. Nothing was changed.") from exc
        except HashingError as exc:
            raise CommandError(f"The password can't be hashed: {exc}. Nothing was changed; free memory first.") from exc

    def _add(self, *, name: str, role: str, password_stdin: bool, **_: Any) -> None:
        try:
            check_username(name)
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        if User.objects.filter(username=name).exists():
            raise CommandError(f"A user {name} exists already.")
        password = self._read_password(User(username=name), password_stdin)
        with transaction.atomic():
            User.objects.create_user(name, password, Role(role))
            record_command(account_name(os.getuid()), "add_user", detail=f"{name} as {role}")
        self.stdout.write(f"Added {name} as {role}.")

    def _role(self, *, name: str, role: str, **_: Any) -> None:
        user = self._user(name)
        if user.role == role:
            raise CommandError(f"{name} is {role} already.")
        if role != Role.ADMIN:
            self._keep_an_admin(user)
        before, user.role = user.role, role
        with transaction.atomic():
            user.save(update_fields=["role"])
            record_command(account_name(os.getuid()), "change_role", detail=f"{name} from {before} to {role}")
        self.stdout.write(f"{name} is {role} now, and was {before}.")

    def _password(self, *, name: str, password_stdin: bool, **_: Any) -> None:
        user = self._user(name)
        user.set_password(self._read_password(user, password_stdin))
        with transaction.atomic():
            user.save(update_fields=["password"])
            record_command(account_name(os.getuid()), "set_password", detail=name)
        removed = forget_password_file(settings.DATA_PATH, user)
        sentence = f"{name} has a new password; its sessions are ended."
        self.stdout.write(sentence + (" The file with the first password is removed." if removed else ""))

    def _disable(self, *, name: str, **_: Any) -> None:
        user = self._user(name)
        if not user.is_active:
            raise CommandError(f"{name} is disabled already.")
        self._keep_an_admin(user)
        user.is_active = False
        with transaction.atomic():
            user.save(update_fields=["is_active"])
            for session in Session.objects.all().iterator():
                if session.get_decoded().get("_auth_user_id") == str(user.pk):
                    session.delete()
            record_command(account_name(os.getuid()), "disable_user", detail=name)
        self.stdout.write(f"{name} can't log in any more; its sessions are ended.")

    def _enable(self, *, name: str, **_: Any) -> None:
        user = self._user(name)
        if user.is_active:
            raise CommandError(f"{name} is not disabled.")
        user.is_active = True
        with transaction.atomic():
            user.save(update_fields=["is_active"])
            record_command(account_name(os.getuid()), "enable_user", detail=name)
        self.stdout.write(f"{name} can log in again.")

    def _list(self, **_: Any) -> None:
        for user in User.objects.order_by("username"):
            state = "" if user.is_active else "  disabled"
            last = f"{user.last_login:%Y-%m-%d %H:%M} UTC" if user.last_login else "never"
            self.stdout.write(f"{user.username:<24} {user.role:<9} last log-in: {last}{state}")

    def _user(self, name: str) -> User:
        user = User.objects.filter(username=name).first()
        if user is None:
            raise CommandError(f"There is no user {name}.")
        return user

    def _keep_an_admin(self, user: User) -> None:
        """Raises CommandError when `user` is the only admin left."""
        others = User.objects.filter(role=Role.ADMIN, is_active=True).exclude(pk=user.pk)
        if user.role == Role.ADMIN and user.is_active and not others.exists():
            raise CommandError(f"{user.username} is the only admin. Add another one first.")

    def _read_password(self, user: User, from_stdin: bool) -> str:
        if from_stdin:
            password = sys.stdin.readline().rstrip("\r\n")
        elif sys.stdin.isatty():
            try:
                password = getpass.getpass(f"Password of {user.username}: ")
                again = getpass.getpass("Again: ")
            except EOFError as exc:
                raise CommandError("No password was given.") from exc
            if again != password:
                raise CommandError("The two passwords differ.")
        else:
            raise CommandError("There is no terminal to type the password at: use --password-stdin.")
        try:
            validate_password(password, user)
        except ValidationError as exc:
            raise CommandError(" ".join(exc.messages)) from exc
        return password
