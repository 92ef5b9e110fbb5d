"""`penstock token`: make, list and revoke tokens of programs, whether a server runs or not.

A running server follows the file within a second. The audit list has the intent before a change and the result behind
it: when the intent can't be written, nothing is changed.
"""

import os
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from admin_console.audit.record import now_ms
from admin_console.management.audited_command import audited
from admin_console.management.command import PlainCommand
from admin_console.paths import account_name
from queue_engine.service.identity.token import Token, TokenError
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.options.durations import parse_duration_ms
from queue_engine.vocabulary.permission import Permission

_FIRST = (
    "This is the first token. From now on clients must send one: over TCP as the secret of AUTH, over HTTP as "
    "Authorization: Bearer. A running server requires it within a second, and disconnects clients without one; "
    "serve --allow-anonymous lets clients in without."
)


class Command(PlainCommand):
    uses_data_path = True
    help = "Create, list and revoke tokens, by which programs publish, consume and administer."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        create = verbs.add_parser("create", help="create a token; its secret is printed once, to standard output")
        create.add_argument("name", help="its name in the audit list and on pages")
        create.add_argument(
            "--allow",
            action="append",
            required=True,
            choices=[permission.value for permission in Permission],
            help="a permission of the token; repeat it for several",
        )
        create.add_argument(
            "--topic",
            action="append",
            default=[],
            metavar="PATTERN",
            help="only on topics of this name, in which * stands for any characters; can be given several times",
        )
        create.add_argument(
            "--expires-in",
            metavar="DURATION",
            default="0",
            help="how long it is valid, such as 720h (default: for ever)",
        )
        revoke = verbs.add_parser("revoke", help="take a token's rights away; its connections end within a second")
        revoke.add_argument("name", help="the token's name, or its id")
        verbs.add_parser("list", help="list all tokens, revoked ones included; no secrets")

    def handle(self, *, verb: str, **options: Any) -> None:
        if not os.path.isdir(settings.DATA_PATH):
            raise CommandError(f"{settings.DATA_PATH} is not there: name the server's directory with --data-path.")
        try:
            getattr(self, f"_{verb}")(TokenFile(settings.DATA_PATH), **options)
        except TokenError as exc:
            raise CommandError(f"{str(exc)[:1].upper()}{str(exc)[1:]}. Nothing was changed.") from exc
        except PenstockError as exc:
            raise CommandError(str(exc)) from exc

    def _create(
        self, file: TokenFile, *, name: str, allow: list[str], topic: list[str], expires_in: str, **_: Any
    ) -> None:
        try:
            valid_ms = parse_duration_ms(expires_in)
        except ValueError as exc:
            raise CommandError(f"--expires-in: {exc}.") from exc
        at_ms, by = now_ms(), account_name(os.getuid())
        is_first = file.read() is None
        with audited(by, "create_token", f"{name}: {', '.join(allow)} on {', '.join(topic) or '*'}") as sentences:
            token, secret = file.create(
                name, allow, topic, expires_ms=at_ms + valid_ms if valid_ms else 0, by=by, now_ms=at_ms
            )
            sentences.append(f"Created the token {_described(token)}.")
            # Before the result is written, which may fail: the secret is nowhere else.
            self.stderr.write(f"{sentences[-1]} Its secret is shown this once:")
            self.stdout.write(secret)
            self.stdout.flush()
        if is_first:
            self.stderr.write(_FIRST)

    def _revoke(self, file: TokenFile, *, name: str, **_: Any) -> None:
        by = account_name(os.getuid())
        with audited(by, "revoke_token", name) as sentences:
            token = file.revoke(name, by=by, now_ms=now_ms())
            sentences.append(f"Revoked the token {token.name} ({token.id}). Its connections end within a second.")
            self.stdout.write(sentences[-1])

    def _list(self, file: TokenFile, **_: Any) -> None:
        tokens = file.read()
        if tokens is None:
            self.stdout.write("There are no tokens.")
            return
        used, at_ms = file.used_ms(), now_ms()
        for token in tokens:
            last = _moment(used[token.id]) if token.id in used else "never"
            self.stdout.write(f"{token.id}  {token.state(at_ms):<8} {_described(token)}; last used: {last}")


def _described(token: Token) -> str:
    until = f" until {_moment(token.expires_ms)}" if token.expires_ms else ""
    return f"{token.name}: {', '.join(token.permissions)} on {', '.join(token.topics)}{until}"


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
