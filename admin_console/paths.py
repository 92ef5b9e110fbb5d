"""The data directory, and the files of the console in it.

console.sqlite3 holds users, sessions and the audit list; secret-key signs sessions; admin-password is there from
the first start until the first admin's password is changed. The engine keeps its own files beside them.
"""

import os
import secrets
from pathlib import Path

DATA_PATH_VARIABLE = "PENSTOCK_DATA_PATH"
DATA_PATH_DEFAULT = ".penstock"


def data_path() -> Path:
    """The data directory, absolute: PENSTOCK_DATA_PATH, else `.penstock` in the working directory."""
    return Path(os.environ.get(DATA_PATH_VARIABLE) or DATA_PATH_DEFAULT).absolute()


def make_private_directory(path: Path) -> None:
    """Make `path` where it does not exist, and close it to everybody but its owner."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        path.chmod(0o700)


def write_private_file(path: Path, text: str) -> None:
    """Replace `path` by `text`, readable by its owner only; whole or not at all."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_or_make_secret_key(directory: Path) -> str:
    """The key that signs sessions, made at the first start. Two processes that start together get the same one."""
    path = directory / "secret-key"
    if not path.exists():
        temporary = path.with_name(f"secret-key.{secrets.token_hex(4)}.tmp")
        write_private_file(temporary, secrets.token_urlsafe(64) + "\n")
        try:
            # A link refuses to replace: whoever came first has made the key.
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    key = path.read_text().strip()
    if len(key) < 50:
        raise ValueError(
            f"{path} holds {len(key)} characters; a secret key has at least 50. Remove it to get a new one"
        )
    if path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return key
