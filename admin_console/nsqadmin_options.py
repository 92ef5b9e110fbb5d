"""Options of nsqadmin's own interface: who may use it, and whom it notifies. Flags are named as nsqadmin's.

`settings.CONSOLE.nsqadmin` has them, checked.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from admin_console.vocabulary.console_option import ConsoleOption, split_list
from queue_engine.vocabulary.client_key import IPNetwork

T = TypeVar("T")

BASE_PATH = ConsoleOption(
    "--base-path", "/", "/PATH/", "all pages of the console are below this path; name it in --console-origin, too"
)
ACL_HEADER = ConsoleOption(
    "--acl-http-header",
    "",
    "HEADER",
    "the header in which a trusted proxy names the user, who is logged in then, as for nsqadmin (default: none)",
)
# Not --admin-user, as nsqadmin has it: PENSTOCK_ADMIN_USER names the first admin.
ADMIN_USERS = ConsoleOption(
    "--acl-admin-user",
    "",
    "NAME",
    "a name in --acl-http-header whose user is an admin, and others are viewers; without one all are admins",
    is_list=True,
)
NOTIFIED = ConsoleOption(
    "--notification-http-endpoint", "", "URL", "where each act is reported by a POST, with its outcome and its author"
)
CONFIG_FROM = ConsoleOption(
    "--allow-config-from-cidr",
    "127.0.0.1/8",
    "NETWORK",
    "the addresses from which an admin may use /config; empty for all",
    is_list=True,
)
API_FROM = ConsoleOption(
    "--allow-api-from-cidr",
    "",
    "NETWORK",
    "the addresses whose programs may use nsqadmin's /api without a log-in or a token (default: none)",
    is_list=True,
)
NSQADMIN_OPTIONS = (BASE_PATH, ACL_HEADER, ADMIN_USERS, NOTIFIED, CONFIG_FROM, API_FROM)

# The paths of nsqadmin's interface.
_PATHS = ("/api/topics", "/api/nodes", "/api/counter", "/api/graphite", "/config")
# A header's name, as HTTP has it.
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_USER_LENGTH_MAX = 150


@dataclass(frozen=True, slots=True)
class NsqadminOptions:
    """acl_header: "" where no header names users. notified: a URL; "" for none. config_from: None for all addresses."""

    acl_header: str = ""
    admin_users: frozenset[str] = frozenset()
    notified: str = ""
    config_from: tuple[IPNetwork, ...] | None = None
    api_from: tuple[IPNetwork, ...] = ()

    @classmethod
    def parse(cls, texts: Mapping[str, str], *, has_trusted_proxy: bool) -> "NsqadminOptions":
        """texts: by flag. Raises ValueError with every complaint, one a line."""
        complaints: list[str] = []

        def checked(option: ConsoleOption, read: Callable[[str], T], default: T) -> T:
            try:
                return read(texts[option.flag])
            except ValueError as exc:
                complaints.extend(f"{option.flag}: {line}" for line in str(exc).splitlines())
                return default

        found = cls(
            checked(ACL_HEADER, _header, ""),
            checked(ADMIN_USERS, _users, frozenset[str]()),
            checked(NOTIFIED, _url, ""),
            checked(CONFIG_FROM, lambda text: _networks(text) or None, None),
            checked(API_FROM, _networks, ()),
        )
        if found.admin_users and not texts[ACL_HEADER.flag]:
            complaints.append(f"{ADMIN_USERS.flag} needs {ACL_HEADER.flag}, the header that has the user's name")
        if found.acl_header and not has_trusted_proxy:
            complaints.append(
                f"{ACL_HEADER.flag} {found.acl_header} needs --trusted-proxy: other clients could set any name there"
            )
        if complaints:
            raise ValueError("\n".join(complaints))
        return found

    @staticmethod
    def has_path(path: str) -> bool:
        """Whether nsqadmin's interface has it."""
        return any(path == one or path.startswith(f"{one}/") for one in _PATHS)


def _header(text: str) -> str:
    if text and not _HEADER.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is no name of a header")
    if "_" in text:
        # Django reads a name's _ as -, and drops headers with a _: another header would count, which clients may set.
        meant = text.replace("_", "-")
        raise ValueError(f"{text!r} has a _: such a header is dropped. Have the proxy set {meant}, and name that")
    return text


def _users(text: str) -> frozenset[str]:
    names = split_list(text)
    for name in names:
        if len(name) > _USER_LENGTH_MAX:
            raise ValueError(f"{name[:80]!r}… has more than {_USER_LENGTH_MAX} characters")
    return frozenset(names)


def _url(text: str) -> str:
    if not text:
        return ""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or len(text) > 2_000:
        raise ValueError(f"{text[:80]!r} is no URL such as https://hooks.example.org/nsq")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError(f"{text[:80]!r} names a port beyond 1 to 65535")
    return text


def _networks(text: str) -> tuple[IPNetwork, ...]:
    networks, complaints = [], []
    for one in split_list(text):
        try:
            networks.append(ipaddress.ip_network(one, strict=False))
        except ValueError:
            complaints.append(f"{one[:80]!r} is neither an IP address nor a network such as 10.0.0.0/8")
    if complaints:
        raise ValueError("\n".join(complaints))
    return tuple(networks)
