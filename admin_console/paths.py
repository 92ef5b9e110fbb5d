"""The data directory, and the secret key in it.

console.sqlite3 holds users, sessions and the audit list; secret-key signs sessions; admin-password is there from
the first start until the first admin logs in or has another password. The engine's files lie beside them.
"""

import contextlib
import os
import pwd
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from admin_console.vocabulary.private_files import (
    close_to_others,
    file_defect,
    make_private_directory,
    read_private_file,
    set_aside,
    write_private_file,
)

DATA_PATH_VARIABLE = "PENSTOCK_DATA_PATH"
DATA_PATH_DEFAULT = ".penstock"
SECRET_KEY_LENGTH_MIN = 50
# Made by the first start, and there as long as the data is.
_TELLING_FILES = ("topology.json", "console.sqlite3", "secret-key")
_SECRET_KEY_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class SecretKey:
    """complaint: the file's fault, and the remedy that was taken; "" without any."""

    text: str
    complaint: str = ""


def data_path() -> Path:
    """The data directory, absolute: PENSTOCK_DATA_PATH, else `.penstock` in the working directory."""
    return Path(os.environ.get(DATA_PATH_VARIABLE) or DATA_PATH_DEFAULT).absolute()


def make_data_directory(path: Path) -> None:
    """Make it where it does not exist, for its owner alone. Raises OSError with a sentence."""
    try:
        make_private_directory(path)
        readable = os.access(path, os.R_OK | os.W_OK | os.X_OK)
    except FileExistsError as exc:
        raise OSError(_complaint(path, _not_a_directory(path))) from exc
    except OSError as exc:
        act = "written" if path.is_dir() else "made"
        raise OSError(_complaint(path, f"it can't be {act}: {exc.strerror} ({exc.filename})")) from exc
    if not readable:
        raise OSError(
            _complaint(path, f"the account {account_name(os.geteuid())} may not write it, or its disk is read-only")
        )


def check_account(path: Path) -> None:
    """One account owns the data: that account could not read files that root writes in it. Raises OSError with a
    sentence when a server's files in `path` belong to another account and this process is root's, or may not read them.

    Only files show the owner: a volume's directory may be root's, and its mount may name any owner for files that all
    may write. NFS and SMB may give root's new files to another account: then that account's files are root's as
    well."""
    for one in (path / name for name in _TELLING_FILES):
        try:
            owner = one.lstat().st_uid
        except OSError:
            continue
        me = os.geteuid()
        if owner == me or (me and os.access(one, os.R_OK | os.W_OK, effective_ids=True)):
            continue
        if not me and owner == _owner_of_new_files(path):
            continue
        owners = (
            f"{one.name} in it belongs to the account {account_name(owner)}, and this command runs as "
            f"{account_name(me)}. "
        )
        if me and path.stat().st_uid == me:
            remedy = f"Give everything in it to one account: `chown -R {account_name(me)} {path}`"
        else:
            remedy = f"Run the command as {account_name(owner)}"
        raise OSError(_complaint(path, owners + remedy))


def _owner_of_new_files(path: Path) -> int | None:
    """To whom a file belongs that this process makes in `path`; None where it can't. The file is gone again."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            return os.fstat(file.fileno()).st_uid
    except OSError:
        return None


def check_data_directory(path: Path) -> None:
    """For commands that make none. Raises OSError with a sentence."""
    if not os.path.lexists(path):
        raise OSError(_complaint(path, "it does not exist. `penstock serve` makes it"))
    if not path.is_dir():
        raise OSError(_complaint(path, _not_a_directory(path)))
    if not os.access(path, os.R_OK | os.X_OK):
        raise OSError(_complaint(path, f"the account {account_name(os.geteuid())} may not read it"))


def _complaint(path: Path, reason: str) -> str:
    return f"the data directory {path} can't be used: {reason}. --data-path or {DATA_PATH_VARIABLE} names another one."


def _not_a_directory(path: Path) -> str:
    """For a path that should be a directory."""
    if path.is_symlink() and not path.exists():
        return f"it is a symbolic link to {os.readlink(path)}, which does not exist"
    return "it is a file, not a directory"


def account_name(uid: int) -> str:
    """The operating system's name of an account; "uid 1000" where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


_made_key: SecretKey | None = None
# Beside the key: hashes of passwords and sessions, and files that others must not write. The engine sees to
# tokens.json.
_SECRET_FILES = ("console.sqlite3", "console.sqlite3-wal", "console.sqlite3-shm", "admin-password", "audit-head")


def make_secret_key(directory: Path) -> None:
    """For the server: read the key, or make it, before settings read it."""
    global _made_key
    _made_key = read_or_make_secret_key(directory)
    # A backup that was restored by hand, or a careless chmod. The directory is private as well.
    for name in _SECRET_FILES:
        with contextlib.suppress(OSError):  # not there, or of another account: the directory keeps others out
            close_to_others(directory / name)


def secret_key() -> SecretKey:
    """The key that `make_secret_key` read or made in this process; for other commands the file's.

    They make no file: where there is none, or a damaged one, no session can be read, and the key ends with the process.
    """
    if _made_key is not None:
        return _made_key
    path = data_path() / "secret-key"
    try:
        if os.path.lexists(path) and not _damage_of(path):
            return SecretKey(read_private_file(path, _SECRET_KEY_BYTES_MAX).decode().strip())
    except OSError:
        pass  # a file of another account
    return SecretKey(secrets.token_urlsafe(64))


def read_or_make_secret_key(directory: Path) -> SecretKey:
    """The key that signs sessions, made at the first start. Two processes that start together get the same one.

    Never raises for the file's content: a damaged one is set aside, and where the disk refuses a new one, the
    key lives as long as the process.
    """
    path = directory / "secret-key"
    damage = ""
    try:
        damage = _damage_of(path)
        if damage:
            aside = set_aside(path)
            damage = f"{path} was {damage}: it is now {aside.name}, a new key was made, and everybody logs in again."
        if not os.path.lexists(path):
            _make(path)
        found = _damage_of(path)
        if found:
            raise OSError(found)
        key = read_private_file(path, _SECRET_KEY_BYTES_MAX).decode().strip()
        close_to_others(path)
    except OSError as exc:
        reason = damage or exc.strerror or str(exc)
        return SecretKey(
            secrets.token_urlsafe(64),
            f"{path} can't be used ({reason}): sessions are signed with a key that ends with this process, and "
            "everybody logs in again after the next start.",
        )
    return SecretKey(key, damage)


def _damage_of(path: Path) -> str:
    """The fault of the file, for a sentence; "" when it is a key or not there. Raises OSError."""
    if kind := file_defect(path):
        return kind
    try:
        text = read_private_file(path, _SECRET_KEY_BYTES_MAX).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return ""
    if not text:
        return "empty"
    if len(text) < SECRET_KEY_LENGTH_MIN:
        return f"damaged ({len(text)} characters; a key has at least {SECRET_KEY_LENGTH_MIN})"
    if not text.isprintable() or "�" in text or " " in text:
        return "damaged (it holds characters that no key has)"
    return ""


def _make(path: Path) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    write_private_file(temporary, secrets.token_urlsafe(64) + "\n")
    try:
        # A link replaces nothing: the first process has made the key.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
