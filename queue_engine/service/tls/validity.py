"""How long a server's certificate is valid, and who looks after it: it is read again when its files are replaced, and
warned of before it ends.

A client refuses a certificate that has expired; the server itself would go on to show it in silence.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from queue_engine.vocabulary.clock import NS_PER_S, Clock

logger = logging.getLogger(__name__)

DAY_S = 86_400
# Enough for a renewal by hand, and less than certbot leaves of a certificate of 90 days.
WARN_S = 21 * DAY_S
WARN_EVERY_NS = DAY_S * NS_PER_S


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity of all certificates in one file: the server's, and those between it and its authority. Unix
    seconds."""

    path: str
    begins_s: float
    ends_s: float

    def warning(self, now_s: float) -> str:
        """A sentence where it has expired, ends soon or has not begun; "" where all is well."""
        subject = f"the certificate in {self.path}"
        renew = "Replace the file and its key: new connections get them within a second, without a restart"
        if now_s >= self.ends_s:
            return f"{subject} has expired at {_utc(self.ends_s)}: clients refuse it. {renew}"
        if now_s < self.begins_s:
            return f"{subject} is valid from {_utc(self.begins_s)} on: clients refuse it until then. Look at the clock"
        left_s = self.ends_s - now_s
        if left_s >= WARN_S:
            return ""
        left = f"{int(left_s // DAY_S)} days" if left_s >= 2 * DAY_S else f"{int(left_s // 3600)} hours"
        return f"{subject} expires in {left}, at {_utc(self.ends_s)}: clients refuse it then. {renew}"


def read_validity(path: str) -> Validity | None:
    """None, with a line in the log, for certificates that can't be understood. Raises OSError."""
    # Imported here: a start without TLS need not wait for it.
    from cryptography import x509

    with open(path, "rb") as file:
        data = file.read()
    try:
        found = x509.load_pem_x509_certificates(data)
        begins_s = max(one.not_valid_before_utc.timestamp() for one in found)
        ends_s = min(one.not_valid_after_utc.timestamp() for one in found)
    except ValueError as exc:
        logger.warning("the validity of the certificate in %s can't be read: %s", path, exc)
        return None
    return Validity(path, begins_s, ends_s)


class Served(Protocol):
    """The part of `MadeOfFiles` that the watch of a certificate reads: an object with a validity."""

    @property
    def complaint(self) -> str: ...

    def current(self) -> "HasValidity": ...


class HasValidity(Protocol):
    @property
    def validity(self) -> Validity | None: ...


class CertificateWatch:
    """Looks after the certificate of some listeners. Belongs to the thread that `served` belongs to; `expiries_s` may
    be called by any."""

    def __init__(self, served: Served | None, listeners: Iterable[str], clock: Clock, *, warns: bool = True) -> None:
        """served: None without TLS. listeners: their names in metrics. warns: in the log; another may do that."""
        self._served = served
        self._listeners = tuple(listeners)
        self._clock = clock
        self._warns = warns
        self._warned_ns: int | None = None
        self._validity = None if served is None else served.current().validity

    def look(self) -> None:
        """Take a replaced file, and log a warning once a day while there is one."""
        if self._served is None:
            return
        before, self._validity = self._validity, self._served.current().validity
        now_ns = self._clock.monotonic_ns()
        is_due = self._warned_ns is None or now_ns - self._warned_ns >= WARN_EVERY_NS or before != self._validity
        if self._warns and is_due and (warning := self.warning()):
            self._warned_ns = now_ns
            logger.warning("TLS: %s", warning)

    def warnings(self) -> list[str]:
        """Lines for /readyz: new files that can't be used, and `Validity.warning`."""
        complaint = "" if self._served is None else self._served.complaint
        return [sentence for sentence in (complaint, self.warning()) if sentence]

    def warning(self) -> str:
        return "" if self._validity is None else self._validity.warning(self._clock.time_ns() / NS_PER_S)

    def expiries_s(self) -> Mapping[str, float]:
        """When the certificate of each listener expires, Unix seconds."""
        validity = self._validity
        return {} if validity is None else dict.fromkeys(self._listeners, validity.ends_s)


def _utc(at_s: float) -> str:
    try:
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{at_s:.0f} s since 1970"
