"""What lies between a client and the engine, and how much of its channel it gets: the words of the client rows."""

from typing import Any

from admin_console.vocabulary import units


def agreed(client: Any) -> str:
    """What IDENTIFY has agreed on: "V2 · timeout 1m · TLS1.3 · snappy · 42 % sample"."""
    return " · ".join([f"V2 · timeout {units.duration(client.msg_timeout_ms / 1000)}", *_layers(client)])


def layers(client: Any) -> str:
    """TLS and compression alone; "" for a plain connection."""
    return " · ".join(_layers(client))


def _layers(client: Any) -> list[str]:
    parts = [client.tls_version] if client.tls else []
    parts += [name for name, is_on in (("snappy", client.snappy), ("deflate", client.deflate)) if is_on]
    if client.sample_rate:
        parts.append(f"{client.sample_rate} % sample")
    return parts
