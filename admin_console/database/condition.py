"""The condition of the console's database in this process: where its tables are, files set aside, notices for users."""

import sqlite3
import threading
from dataclasses import dataclass
from enum import Enum

from admin_console.database.errors import Trouble, trouble_of

INCIDENTS_MAX = 10


class Storage(Enum):
    """Where the console's tables are."""

    DISK = "disk"
    READ_ONLY = "read-only"  # in the file, which can't be written
    MEMORY = "memory"  # there is no file, and the disk refuses one


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice for users: its title and its full text. tone: warning or danger."""

    title: str
    text: str
    tone: str = "warning"


class DatabaseCondition:
    """Where the database's tables are now, and notices for users. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._storage = Storage.DISK
        self._reason = ""
        self._incidents: list[Notice] = []
        self.damage_seen = threading.Event()  # an error reported it; the thread of opening.py checks the file

    def saw(self, error: sqlite3.Error) -> None:
        """Take every error of the database."""
        if trouble_of(error) is Trouble.DAMAGED:
            self.damage_seen.set()

    def is_now(self, storage: Storage, reason: str = "") -> None:
        """reason: of the disk, for a sentence; "" on the disk."""
        with self._lock:
            self._storage, self._reason = storage, reason

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def reason(self) -> str:
        return self._reason

    def add_incident(self, title: str, text: str) -> None:
        """Add a notice that stays until the next start: a file was set aside."""
        with self._lock:
            self._incidents = [*self._incidents, Notice(title, text)][-INCIDENTS_MAX:]

    def forget(self) -> None:
        """Reset to the state at the start of a process."""
        with self._lock:
            self._storage, self._reason, self._incidents = Storage.DISK, "", []
            self.damage_seen.clear()

    def notices(self) -> list[Notice]:
        """The newest incident first."""
        with self._lock:
            found = [*reversed(self._incidents)]
            if self._storage is Storage.READ_ONLY:
                found.insert(
                    0,
                    Notice(
                        "The console's database can't be written.",
                        f"{self._reason}. Sessions and audit rows stay in memory and are written when the disk takes "
                        "them; users and passwords can't be changed until then. Messages are not affected.",
                    ),
                )
            elif self._storage is Storage.MEMORY:
                found.insert(
                    0,
                    Notice(
                        "The console's database is in memory.",
                        f"{self._reason}. Users, sessions and audit rows are written when the disk takes them, and "
                        "are lost if the server ends before. Messages are not affected.",
                    ),
                )
            return found


CONDITION = DatabaseCondition()
