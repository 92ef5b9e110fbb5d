"""The first admin, made at the first start; there is no default password."""

import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from argon2.exceptions import HashingError
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from admin_console.accounts.models import User, check_username
from admin_console.vocabulary.private_files import read_private_file, write_private_file
from admin_console.vocabulary.roles import Role
from admin_console.vocabulary.variables import ADMIN_PASSWORD, ADMIN_USER

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FirstAdmin:
    """The admin that was just made. `password` is empty where the environment gave it; password_path: the file with the
    password, None where there is none."""

    username: str
    password: str
    password_path: Path | None


def password_file(directory: Path) -> Path:
    """The file of the generated password; it is removed when the user logs in or has another password."""
    return directory / "admin-password"


def make_first_admin(directory: Path, environment: Mapping[str, str] = os.environ) -> FirstAdmin | None:
    """Make an admin while there is no user at all; None when there is one.

    Raises ValueError with a sentence when the environment's name or password can't be used, or memory is too short.
    """
    if User.objects.exists():
        return None
    username = environment.get(ADMIN_USER) or "admin"
    try:
        check_username(username)
    except ValidationError as exc:
        raise ValueError(f"{ADMIN_USER}: {' '.join(exc.messages)}") from exc
    if given := environment.get(ADMIN_PASSWORD):
        try:
            validate_password(given, User(username=username))
        except ValidationError as exc:
            raise ValueError(f"{ADMIN_PASSWORD}: {' '.join(exc.messages)}") from exc
        _create(username, given)
        return FirstAdmin(username, "", None)
    password = secrets.token_urlsafe(15)
    path = password_file(directory)
    stored_path: Path | None = path
    # Write the file first: after a crash in between, no later start could print the password.
    try:
        write_private_file(path, f"user: {username}\npassword: {password}\n")
    except OSError:
        stored_path = None  # a full disk: the password is only printed
    _create(username, password)
    return FirstAdmin(username, password, stored_path)


def _create(username: str, password: str) -> None:
    try:
        User.objects.create_user(username, password, Role.ADMIN)
    except HashingError as exc:
        raise ValueError(f"The password of {username} can't be hashed: {exc}. Free memory and start again.") from exc


def lines_about(admin: FirstAdmin | None, *, is_terminal: bool) -> list[str]:
    """The lines about the log-in that the start prints; [] where no admin was made.

    is_terminal: the lines go to a terminal. Otherwise they go to a stored journal with other readers: there they name
    the password's file instead of the password, if there is a file.
    """
    if admin is None:
        return []
    if not admin.password:
        return [f"First start: made the admin {admin.username} with the password of {ADMIN_PASSWORD}."]
    if admin.password_path is not None and not is_terminal:
        path = admin.password_path
        return [f"First start: log in as {admin.username}; the password is in {path} until then."]
    line = f"First start: log in as {admin.username} with the password {admin.password}"
    if admin.password_path is None:
        return [line, "It is shown this once: the disk refused a file for it."]
    return [line, f"It is shown this once; {admin.password_path} has it until you log in."]


def forget_password_file(directory: Path, user: User) -> bool:
    """Remove the password file if it is that of `user`, who has logged in or has another password; whether it was
    removed. Never raises: where the disk refuses, the file stays."""
    path = password_file(directory)
    try:
        named = read_private_file(path, 4096).decode("utf-8", "replace").partition("\n")[0].removeprefix("user: ")
    except OSError:
        return False
    if named != user.username:
        return False
    try:
        path.unlink(missing_ok=True)
    except OSError as exc:
        logger.warning("the file with the first password stays: %s can't be removed: %s", path, exc)
        return False
    return True
