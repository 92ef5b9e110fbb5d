"""The options as they are now, by nsqd's names: those of the start, and the changes since.

A change lasts until the process ends, as nsqd's does: the next start has its own options again. An option can be
changed when the part that has it in use offers that (`RunningConfig.offer`).
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import orjson

from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import InvalidOptionValueError, UnknownOptionError
from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.options.options import Options

# nsqd names these options otherwise than their flags, and does not know the flags' names.
_FIELD_OF = {
    "auth_http_addresses": "auth_http_address",
    "e2e_processing_latency_percentiles": "e2e_processing_latency_percentile",
    "id": "node_id",
    "nsqlookupd_tcp_addresses": "lookupd_tcp_address",
}
# Options with one of these in their name are not answered.
_SECRET = ("token", "secret", "password")
_SHOWN_MAX = 80  # characters of a refused value

# nsqd's words, and the number that it answers for each.
LOG_LEVELS: Mapping[str, tuple[int, int]] = {
    "debug": (1, logging.DEBUG),
    "info": (2, logging.INFO),
    "warn": (3, logging.WARNING),
    "warning": (3, logging.WARNING),
    "error": (4, logging.ERROR),
    "fatal": (5, logging.CRITICAL),
}


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that can be changed. read: its value now, which JSON can have. change: puts the value of a request's
    body into force, or changes nothing and raises ValueError with a sentence. Both run on the engine's thread."""

    read: Callable[[], Any]
    change: Callable[[bytes], None]


def log_level_setting() -> Setting:
    """The least level of this process's log lines."""
    root = logging.getLogger()

    def read() -> int:
        return max((number for number, level in LOG_LEVELS.values() if level <= root.level), default=1)

    def change(body: bytes) -> None:
        word = body.decode("utf-8", "replace")
        found = LOG_LEVELS.get(word.lower())
        if found is None:
            raise ValueError(f"{_shown(word)} is no level: it can be {', '.join(LOG_LEVELS)}")
        root.setLevel(found[1])

    return Setting(read, change)


def addresses_setting(read: Callable[[], tuple[str, ...]], change: Callable[[tuple[str, ...]], None]) -> Setting:
    """A list of HOST:PORT, written in JSON. change: gets only addresses of that form, each once."""

    def parsed(body: bytes) -> None:
        try:
            found = orjson.loads(body)
        except orjson.JSONDecodeError as exc:
            raise ValueError(f"the body is no JSON: {exc}") from exc
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            raise ValueError("the body is no list of texts")
        for one in found:
            try:
                host, port = split_address(one)
            except ValueError as exc:
                raise ValueError(f"{_shown(one)} is not HOST:PORT") from exc
            if not host or not port:
                raise ValueError(f"{_shown(one)} names no host and port to connect to")
        change(tuple(dict.fromkeys(found)))

    return Setting(lambda: list(read()), parsed)


class RunningConfig:
    """Belongs to the engine's thread.

    ports: those of NSQ's protocol and of HTTP that are bound, 0 for sockets in the file system. given: nsqd's options
    as the command line has them, where the engine has another value or none.
    """

    def __init__(self, options: Options) -> None:
        self.ports: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self.given: Mapping[str, Any] = {}
        self._options = options
        self._fields = {spec.name: spec for spec in fields(options)}
        self._settings: dict[str, Setting] = {"log_level": log_level_setting()}

    def offer(self, name: str, setting: Setting) -> None:
        """Let an option be changed from now on. name: nsqd's, such as "nsqlookupd_tcp_addresses"."""
        self._settings[name] = setting

    def value(self, name: str) -> Any:
        """An option's value now, as nsqd answers it: a text or another value of JSON; durations are nanoseconds.

        Raises UnknownOptionError for an option that there is not, and for secrets.
        """
        setting = self._settings.get(name)
        if setting is not None:
            return setting.read()
        if name in self.given:
            return self.given[name]
        if name in _FIELD_OF.values():
            raise UnknownOptionError(f"there is no option {_shown(name)}")
        effective = self._effective(name)
        if effective is not None:
            return effective
        name = _FIELD_OF.get(name, name)
        if any(word in name for word in _SECRET):
            raise UnknownOptionError(f"{_shown(name)} is not shown to anyone")
        if name in self._fields and not name.endswith("_ms"):
            value = getattr(self._options, name)
            return list(value) if isinstance(value, tuple) else value
        if f"{name}_ms" in self._fields:
            return getattr(self._options, f"{name}_ms") * NS_PER_MS
        raise UnknownOptionError(f"there is no option {_shown(name)}")

    def _effective(self, name: str) -> Any:
        """The value of an option that nsqd answers as it uses it; None for another one."""
        options, (tcp_port, http_port) = self._options, self.ports()
        host, http_port = options.effective_broadcast_address, options.broadcast_http_port or http_port
        match name:
            case "id":
                return options.effective_node_id
            case "broadcast_address":
                return host
            case "broadcast_tcp_port":
                return options.broadcast_tcp_port or tcp_port
            case "broadcast_http_port":
                return http_port
            case "statsd_prefix":
                return options.effective_statsd_prefix(host, http_port)
            case "tls_min_version":
                return options.tls_min_version_number
            case "tls_required":
                return options.tls_required_number
        return None

    def change(self, name: str, body: bytes) -> None:
        """Change an option to the value that a request's body has.

        Raises UnknownOptionError for one that can't be changed, InvalidOptionValueError for a value that it can't have.
        """
        setting = self._settings.get(name)
        if setting is None:
            can = ", ".join(sorted(self._settings))
            raise UnknownOptionError(f"{_shown(name)} can't be changed while the server runs; these can: {can}")
        try:
            setting.change(body)
        except ValueError as exc:
            raise InvalidOptionValueError(f"{name}: {exc}") from exc


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")
