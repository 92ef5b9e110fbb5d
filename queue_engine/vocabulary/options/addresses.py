"""Addresses to listen at or to connect to."""

import re


def split_address(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, brackets around an IPv6 host taken off. Raises ValueError naming the text."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def joined(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
