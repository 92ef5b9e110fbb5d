"""Addresses to listen at or to connect to."""

import ipaddress
import re
from urllib.parse import urlsplit


def split_address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, brackets around an IPv6 host taken off. Raises ValueError naming the text."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,100}", port):
        raise ValueError(f"{text!r} is not HOST:PORT")
    if int(port) > 65535:
        raise ValueError(f"{text!r} has the port {port}: a port is 0 to 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


# In the place of a port, for a socket in the file system: nsqd says so in /info.
NO_PORT = -1


def is_socket_path(text: str) -> bool:
    """Whether an address is the path of a socket in the file system."""
    return text.startswith("/")


def joined(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 host; the path of a socket in the file system as it is."""
    if port == NO_PORT:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def auth_url(text: str) -> str:
    """The URL of an auth server: HOST:PORT means http://HOST:PORT/auth. Raises ValueError naming the text."""
    url = text if "://" in text else f"http://{text}/auth"
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or parts.username is not None or parts.fragment:
        raise ValueError(f"{text!r} is neither HOST:PORT nor a URL of http or https")
    return url


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach the address; "" stands for all addresses."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
