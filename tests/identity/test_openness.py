"""What strangers may do: `serve` refuses it unless it is meant, and the daemon names it."""

from typing import Any

import pytest

from queue_engine.service.identity import openness
from queue_engine.vocabulary.options.options import Options

TCP = "every stranger who reaches --tcp-address 0.0.0.0:4150 could publish to any topic and consume"
HTTP = "--http-address 0.0.0.0:4151 could publish to any topic, and empty and delete"
PLAIN = "tokens would cross the network unencrypted at "
TLS = {"tls_cert": "c", "tls_key": "k", "tls_required": "true", "https_address": "0.0.0.0:4152"}
ANYWHERE = {"tcp_address": "0.0.0.0:4150", "http_address": "0.0.0.0:4151"}


@pytest.mark.parametrize(
    ("options", "has_tokens", "complaints"),
    [
        ({}, False, []),
        ({"tcp_address": "[::1]:4150", "http_address": "localhost:4151"}, False, []),
        ({"tcp_address": "0.0.0.0:4150"}, False, [TCP]),
        ({"tcp_address": ":4150"}, False, ["--tcp-address :4150"]),
        ({"http_address": "0.0.0.0:4151"}, False, [HTTP]),
        (ANYWHERE, False, [TCP]),
        ({**ANYWHERE, "allow_anonymous": True}, False, []),
        (ANYWHERE, True, [PLAIN + "--tcp-address 0.0.0.0:4150 and --http-address 0.0.0.0:4151"]),
        ({**ANYWHERE, "allow_plaintext": True}, True, []),
        ({**ANYWHERE, "allow_plaintext": True}, False, [TCP]),
        ({"http_address": "0.0.0.0:4151", "http_token": "x"}, False, [PLAIN + "--http-address"]),
        ({"http_address": "0.0.0.0:4151", "http_token": "x", "allow_plaintext": True}, False, []),
        ({"tcp_address": "10.0.0.1:4150", "http_token": "x"}, False, ["--tcp-address 10.0.0.1:4150"]),
        ({"tcp_address": "10.0.0.1:4150", "auth_http_address": ("a:1",)}, False, [PLAIN + "--tcp-address"]),
        ({"tcp_address": "10.0.0.1:4150", "auth_http_address": ("a:1",), "allow_plaintext": True}, False, []),
        # With TLS nothing is unencrypted, where clients must use it.
        ({**ANYWHERE, **TLS}, True, []),
        ({**ANYWHERE, **TLS, "tls_required": "tcp-https"}, True, [PLAIN + "--http-address 0.0.0.0:4151"]),
        ({**ANYWHERE, **TLS, "tls_required": "false"}, True, [PLAIN + "--tcp-address 0.0.0.0:4150 and --http-address"]),
        ({**ANYWHERE, **TLS}, False, ["--https-address 0.0.0.0:4152 could"]),
        # Auth servers are not asked about HTTP.
        ({**ANYWHERE, "auth_http_address": ("a:1",), "allow_plaintext": True}, False, [HTTP]),
    ],
)
def test_serve_refuses_what_is_open_by_accident(
    options: dict[str, Any], has_tokens: bool, complaints: list[str]
) -> None:
    found = openness.complaints(Options(**options), has_tokens=has_tokens)
    assert len(found) == len(complaints), found
    assert all(part in one for part, one in zip(complaints, found, strict=True)), found


def test_the_sentence_names_both_listeners_and_the_ways_out() -> None:
    (sentence,) = openness.complaints(Options(**ANYWHERE), has_tokens=False)
    assert HTTP in sentence
    for way in ("penstock token create", "--auth-http-address", "loopback", "--allow-anonymous"):
        assert way in sentence


def test_the_daemons_warning_names_what_is_open_or_unencrypted() -> None:
    assert openness.warning(Options(), has_tokens=False) == ""
    anonymous = openness.warning(Options(**ANYWHERE), has_tokens=False)
    assert anonymous == (
        "strangers who reach --tcp-address 0.0.0.0:4150 can publish to any topic and consume and finish any channel's "
        "messages; strangers who reach --http-address 0.0.0.0:4151 can publish to any topic, and empty and delete any "
        "topic and channel"
    )
    assert openness.warning(Options(**ANYWHERE), has_tokens=True) == (
        "tokens cross the network unencrypted at --tcp-address 0.0.0.0:4150; tokens cross the network unencrypted at "
        "--http-address 0.0.0.0:4151"
    )
    on_purpose = Options(**ANYWHERE, allow_anonymous=True)
    assert openness.warning(on_purpose, has_tokens=True).startswith("strangers who reach --tcp-address")
