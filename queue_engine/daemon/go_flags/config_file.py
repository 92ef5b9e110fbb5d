"""A configuration file of NSQ's daemons: TOML, a key for each flag.

tcp_address = "0.0.0.0:4150"
msg_timeout = "60s"
nsqlookupd_tcp_addresses = ["127.0.0.1:4160"]
"""

import tomllib
from collections.abc import Iterable

from queue_engine.daemon.go_flags.flag import Flag, Value
from queue_engine.daemon.go_flags.values import from_toml
from queue_engine.vocabulary.errors import FlagError

# A configuration has a few KiB; whatever is larger is another file.
BYTES_MAX = 1 << 20


def read_config(path: str, flags: Iterable[Flag]) -> tuple[dict[str, Value], list[str]]:
    """The values by flag name, and the keys that name no flag. Raises FlagError."""
    try:
        with open(path, "rb") as file:
            data = file.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            raise ValueError(f"it has more than {BYTES_MAX} bytes")
        found = tomllib.loads(data.decode())
    except OSError as exc:
        raise FlagError(f"failed to load config file {path} - {exc.strerror}") from exc
    except ValueError as exc:  # TOML's errors, and those of UTF-8
        raise FlagError(f"failed to load config file {path} - {exc}") from exc
    values: dict[str, Value] = {}
    for flag in flags:
        if flag.key in found:
            value = found.pop(flag.key)
            try:
                values[flag.name] = from_toml(flag.kind, value)
            except ValueError as exc:
                raise FlagError(f"config file {path}: {flag.key} can't be {value!r} - {exc}") from exc
    return values, sorted(found)
