"""Something made of files that is made anew when one of them is replaced, such as a certificate that was renewed."""

import logging
import os
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from queue_engine.vocabulary.clock import NS_PER_S

logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long a replaced file waits for the next connection at most, and how often one is looked at.
LOOK_INTERVAL_NS = NS_PER_S

_Stamp = tuple[int, int, int, int]


class MadeOfFiles(Generic[T]):
    """Belongs to one thread. paths: the files, "" for none. make: reads them; may raise any Exception. The first time
    that goes to the caller of the constructor. Later it is logged, and the former object stays."""

    def __init__(
        self,
        paths: Sequence[str],
        make: Callable[[], T],
        *,
        subject: str,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """subject: its name in the log. now_ns: monotonic."""
        self._paths = [path for path in paths if path]
        self._make = make
        self._subject = subject
        self._now_ns = now_ns
        self._stamps = self._look()
        self._looked_ns = now_ns()
        self._made = make()
        self.complaint = ""
        """Why the files as they are can't be used; "" while they can."""

    def current(self) -> T:
        """Made of the files as they are, or were a second ago."""
        now_ns = self._now_ns()
        if now_ns - self._looked_ns >= LOOK_INTERVAL_NS:
            self._looked_ns = now_ns
            stamps = self._look()
            if stamps != self._stamps:
                self._stamps = stamps
                self._make_anew("replaced")
        return self._made

    def read_again(self) -> None:
        """Make it anew, whatever the files look like: for who asks for it."""
        self._looked_ns = self._now_ns()
        self._stamps = self._look()
        self._make_anew("read again")

    def _make_anew(self, how: str) -> None:
        try:
            # Reading a pipe waits for its writer, and the server with it.
            for path in self._paths:
                if os.path.exists(path) and not os.path.isfile(path):
                    raise ValueError(f"{path} is no regular file")
            self._made = self._make()
        except Exception as exc:
            # A certificate may be there before its key: the next change is looked at again.
            logger.warning("%s stays as it was, since the new files can't be used: %s", self._subject, exc)
            self.complaint = f"{self._subject} stays as it was: {exc}"
        else:
            self.complaint = ""
            logger.info("%s was %s, for new connections: %s", self._subject, how, ", ".join(self._paths))

    def _look(self) -> list[_Stamp | None]:
        return [_stamp_of(path) for path in self._paths]


def _stamp_of(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # The time of the change, too: a key becomes readable by `chmod`, and `cp -p` keeps the other time.
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
