"""What IDENTIFY may agree on, and which options of TLS and buffers fit together."""

from typing import Any

import pytest

from queue_engine.service.tls.server_context import standard_name
from queue_engine.vocabulary.errors import OptionsError, ProtocolError
from queue_engine.vocabulary.options.options import Options
from queue_engine.wire.protocol.features import agreed_features
from queue_engine.wire.protocol.identify import BODY_BYTES_MAX, default_identity, parse_identify


def test_a_body_that_all_others_would_wait_for_is_refused() -> None:
    options = Options()
    default = default_identity("host", options)
    assert parse_identify(b"{}".ljust(BODY_BYTES_MAX), default, options).client_id == ""
    with pytest.raises(ProtocolError, match="E_BAD_BODY IDENTIFY body too big 65537 > 65536"):
        parse_identify(b"{}".ljust(BODY_BYTES_MAX + 1), default, options)


def test_nothing_is_agreed_that_the_server_does_not_offer() -> None:
    features = agreed_features(Options(snappy=False), tls=True, snappy=True, deflate=False, deflate_level=9)
    assert not features.has_layers
    assert features.deflate_level == 6


def test_one_compression_that_is_switched_off_does_not_forbid_the_other() -> None:
    assert agreed_features(Options(snappy=False), tls=False, snappy=True, deflate=True, deflate_level=0).deflate
    with pytest.raises(ProtocolError, match="both deflate and snappy"):
        agreed_features(Options(), tls=False, snappy=True, deflate=True, deflate_level=0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tls_cert": "a.pem"}, "--tls-cert is given without --tls-key: a certificate needs its key"),
        ({"tls_key": "a.key"}, "--tls-key is given without --tls-cert: a certificate needs its key"),
        ({"tls_required": "true"}, "--tls-required true needs --tls-cert and --tls-key"),
        ({"tls_client_auth_policy": "require"}, "--tls-client-auth-policy require needs --tls-cert and --tls-key"),
        (
            {"tls_client_auth_policy": "ask"},
            "--tls-client-auth-policy is 'ask': it can be require, require-verify",
        ),
        ({"https_address": "nowhere"}, "--https-address: 'nowhere' is not HOST:PORT"),
        ({"max_deflate_level": 10}, "--max-deflate-level is 10: the most is 9"),
        (
            {"min_output_buffer_timeout_ms": 40_000},
            "--min-output-buffer-timeout 40000ms is more than --max-output-buffer-timeout 30000ms",
        ),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(OptionsError) as raised:
        Options(**options).validate()
    assert complaint in raised.value.complaints


@pytest.mark.parametrize(
    ("openssl", "standard"),
    [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
        ("ECDHE-RSA-AES256-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"),
        ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ],
)
def test_cipher_suites_have_their_standard_names(openssl: str, standard: str) -> None:
    assert standard_name(openssl) == standard
