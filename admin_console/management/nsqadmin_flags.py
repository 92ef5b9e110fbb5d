"""The flags of nsqadmin 1.3, each as the option of `penstock serve` that takes its place.

A flag acts when `serve` has an option of its name, or of the name in `OTHER_NAMES`; `WITHOUT_EFFECT` has the reason why
the others have none.
"""

import os
from collections.abc import Mapping

from admin_console.nsqadmin_options import ACL_HEADER, ADMIN_USERS
from admin_console.options import CONSOLE_ONLY, CONSOLE_OPTIONS, DEMO, SWITCHES
from admin_console.vocabulary.console_option import environment_variable
from queue_engine.daemon.go_flags.command_line import FlagSet, Given
from queue_engine.daemon.go_flags.flag import Flag, FlagType, Value

PROGRAM = "nsqadmin"
_HEADER = ACL_HEADER.flag.removeprefix("--")
# nsqadmin's own default: it can be reached from other machines.
ADDRESS_DEFAULT = "0.0.0.0:4171"
ACL_HEADER_DEFAULT = "X-Forwarded-User"

_GRAPHITE = (
    "Graphite is not drawn; the pages of topics and channels have graphs of the console's own history, whose range is "
    "chosen above them"
)
WITHOUT_EFFECT: Mapping[str, tuple[FlagType, str]] = {
    "dev-static-dir": (FlagType.TEXT, "the console has its own files"),
    "graphite-url": (FlagType.TEXT, _GRAPHITE),
    "log-prefix": (FlagType.TEXT, "lines of the log have the form of penstock's; --log-format json makes objects"),
    "proxy-graphite": (FlagType.BOOL, _GRAPHITE),
    "statsd-counter-format": (FlagType.TEXT, _GRAPHITE),
    "statsd-gauge-format": (FlagType.TEXT, _GRAPHITE),
    "statsd-interval": (FlagType.DURATION, _GRAPHITE),
    "statsd-prefix": (FlagType.TEXT, _GRAPHITE),
    "verbose": (FlagType.BOOL, "as in nsqadmin: use --log-level"),
}
OTHER_NAMES = {"http-address": "console-address", "admin-user": "acl-admin-user"}
_KINDS = {
    "http-client-connect-timeout": FlagType.DURATION,
    "http-client-request-timeout": FlagType.DURATION,
    "http-client-tls-insecure-skip-verify": FlagType.BOOL,
}
_CONFIG_NAMES = {
    "admin-user": "admin_users",
    "lookupd-http-address": "nsqlookupd_http_addresses",
    "nsqd-http-address": "nsqd_http_addresses",
}
_LEVELS = {"warn": "warning", "fatal": "error"}
_TEXTS = {
    "allowed-host": "a host name that the console answers to, beside this machine's own; may be given several times",
    "data-path": "the directory of users, audit list and history (default .penstock)",
    "http-client-connect-timeout": "timeout for a connection to a node or nsqlookupd",
    "http-client-request-timeout": "timeout for a request to a node or nsqlookupd",
    "log-format": "text or json",
    "log-level": "debug, info, warn, error or fatal",
    "tls-cert": "certificate of the console's own TLS, with --console-tls true",
    "tls-key": "its key",
    "trusted-proxy": "address or network of a proxy that is believed; may be given several times",
}
_DEFAULTS = {
    "http-address": ADDRESS_DEFAULT,
    "http-client-connect-timeout": "2s",
    "http-client-request-timeout": "5s",
    "log-level": "info",
}
_LISTS = ("allowed-host", "trusted-proxy")
_SWITCHES = tuple(option for option in SWITCHES if option not in (CONSOLE_ONLY, DEMO))


def flag_set() -> FlagSet:
    """nsqadmin's flags, and the console's options beside them."""
    flags = [Flag(name, kind, f"has no effect: {note}") for name, (kind, note) in WITHOUT_EFFECT.items()]
    flags += [
        Flag(
            name,
            FlagType.TEXTS if name in _LISTS else _KINDS.get(name, FlagType.TEXT),
            text,
            _DEFAULTS.get(name, ""),
        )
        for name, text in _TEXTS.items()
    ]
    for option in CONSOLE_OPTIONS:
        own = option.flag.removeprefix("--")
        name = next((flag for flag, other in OTHER_NAMES.items() if other == own), own)
        kind = FlagType.TEXTS if option.is_list else _KINDS.get(name, FlagType.TEXT)
        default = _DEFAULTS.get(name, option.default if kind is not FlagType.BOOL else "")
        flags.append(Flag(name, kind, option.help, default, _CONFIG_NAMES.get(name, "")))
    flags += [Flag(option.flag.removeprefix("--"), FlagType.BOOL, option.help) for option in _SWITCHES]
    return FlagSet(PROGRAM, flags)


def notes_of(given: Given, environment: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each flag without effect, and each key of the configuration file that names none. Those with one
    reason share a sentence."""
    notes = [f"--config: {key} is no flag, and has no effect" for key in given.unknown_keys]
    names: dict[str, list[str]] = {}
    for name in given.values:
        if name in WITHOUT_EFFECT:
            names.setdefault(WITHOUT_EFFECT[name][1], []).append(f"--{name}")
    for note, flags in names.items():
        notes.append(f"{', '.join(flags)} {'has' if len(flags) == 1 else 'have'} no effect: {note}")
    if not _has_admins(given.values, environment) and _is_header_alone(given.values, environment):
        notes.append(
            f"{ACL_HEADER.flag} has no effect without --trusted-proxy, the address of the proxy that sets the header: "
            "users log in on the console's own page"
        )
    return notes


def _has_admins(values: Mapping[str, Value], environment: Mapping[str, str]) -> bool:
    return bool(values.get("admin-user") or ADMIN_USERS.variable in environment)


def _is_header_alone(values: Mapping[str, Value], environment: Mapping[str, str]) -> bool:
    """Whether the header comes without a proxy: nsqadmin reads none without admins, and its files may name one."""
    has_proxy = values.get("trusted-proxy") or environment_variable("--trusted-proxy") in environment
    return bool(values.get(_HEADER)) and not has_proxy


def arguments_of(given: Given, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The options of `serve`. Flags are stronger than the environment, nsqadmin's defaults are weaker."""
    values = {name: value for name, value in given.values.items() if name not in WITHOUT_EFFECT}
    if environment_variable("--console-address") not in environment:
        values.setdefault("http-address", ADDRESS_DEFAULT)
    if _has_admins(values, environment):
        if ACL_HEADER.variable not in environment:
            values.setdefault(_HEADER, ACL_HEADER_DEFAULT)
    elif _is_header_alone(values, environment):
        del values[_HEADER]
    switches = {option.flag.removeprefix("--") for option in _SWITCHES}
    arguments = [CONSOLE_ONLY.flag]
    for name, value in values.items():
        if name in switches:
            arguments += [f"--{name}"] if value else []
        else:
            arguments += [f"--{OTHER_NAMES.get(name, name)}={text}" for text in _texts_of(name, value)]
    return arguments


def _texts_of(name: str, value: Value) -> list[str]:
    """As the command line of `serve` has it."""
    if isinstance(value, tuple):
        return [str(one) for one in value]
    if isinstance(value, bool):
        return [str(value).lower()]
    if _KINDS.get(name) is FlagType.DURATION:
        return [f"{value}ms"]
    if name == "log-level":
        return [_LEVELS.get(str(value).lower(), str(value).lower())]
    return [str(value)]
