"""The words of client rows: the layers of a connection, its identity, and its share of the channel."""

from typing import Any

from admin_console.screens.cells import Cell
from admin_console.vocabulary import units


def agreed(client: Any) -> str:
    """The settings that IDENTIFY agreed on: "V2 · timeout 1m · TLS1.3 · snappy · 42 % sample · as deploy". An nsqd
    reports no timeout."""
    timeout = [f"timeout {units.duration(client.msg_timeout_ms / 1000)}"] if client.msg_timeout_ms else []
    return " · ".join(["V2", *timeout, *_layers(client)])


def layers(client: Any) -> str:
    """TLS, compression and identity alone; "" for a plain connection."""
    return " · ".join(_layers(client))


def title(client: Any) -> str:
    """The tooltip: the cipher, and the auth server's page about the identity."""
    return " · ".join(filter(None, (client.tls_cipher_suite, client.auth_identity_url)))


def _layers(client: Any) -> list[str]:
    parts = [client.tls_version] if client.tls else []
    parts += [name for name, is_on in (("snappy", client.snappy), ("deflate", client.deflate)) if is_on]
    if client.sample_rate:
        parts.append(f"{client.sample_rate} % sample")
    if client.authed:
        parts.append(f"as {client.auth_identity}" if client.auth_identity else "with AUTH")
    return parts


def connected_cell(client: Any, now_s: float) -> Cell:
    """For how long it is connected; now_s: Unix. A node may report no time of it."""
    if not client.connect_ts:
        return Cell(units.UNKNOWN, tone="muted")
    return Cell(units.duration(now_s - client.connect_ts), f"{units.moment(client.connect_ts * 1000)} UTC")
