"""What lies between a client and the engine, who it is, and what it gets of its channel: the words of client rows."""

from typing import Any

from admin_console.vocabulary import units


def agreed(client: Any) -> str:
    """What IDENTIFY has agreed on: "V2 · timeout 1m · TLS1.3 · snappy · 42 % sample · as deploy"."""
    return " · ".join([f"V2 · timeout {units.duration(client.msg_timeout_ms / 1000)}", *_layers(client)])


def layers(client: Any) -> str:
    """TLS, compression and identity alone; "" for a plain connection."""
    return " · ".join(_layers(client))


def title(client: Any) -> str:
    """What the words leave out: the cipher, and the page about the identity that an auth server has named."""
    return " · ".join(filter(None, (client.tls_cipher_suite, client.auth_identity_url)))


def _layers(client: Any) -> list[str]:
    parts = [client.tls_version] if client.tls else []
    parts += [name for name, is_on in (("snappy", client.snappy), ("deflate", client.deflate)) if is_on]
    if client.sample_rate:
        parts.append(f"{client.sample_rate} % sample")
    if client.authed:
        parts.append(f"as {client.auth_identity}" if client.auth_identity else "with AUTH")
    return parts
