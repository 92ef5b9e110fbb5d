"""Who a limit counts: by identity, by address, and what a proxy forwards."""

import pytest

from queue_engine.vocabulary.client_key import UNIX, ClientKey, ClientKeys, TrustedAddresses
from queue_engine.vocabulary.shares import Shares

KEYS = ClientKeys(TrustedAddresses.parse(["10.0.0.0/8", "::1"]))


@pytest.mark.parametrize(
    ("peer", "identity", "forwarded", "parts"),
    [
        ("192.0.2.1", "", "", ["address 192.0.2.1"]),
        ("192.0.2.1", "orders", "", ["token orders", "address 192.0.2.1"]),
        ("192.0.2.1", "", "203.0.113.9", ["address 192.0.2.1"]),  # it is no proxy: anybody can write a header
        ("10.1.2.3", "", "203.0.113.9", ["address 203.0.113.9"]),
        ("10.1.2.3", "orders", "198.51.100.1, 203.0.113.9, 10.9.9.9", ["token orders", "address 203.0.113.9"]),
        ("10.1.2.3", "orders", "", ["token orders"]),
        ("10.1.2.3", "orders", "nonsense", ["token orders"]),
        ("10.1.2.3", "", "", ["address 10.1.2.3"]),
        ("::1", "orders", "", ["token orders"]),
        (UNIX, "orders", "", ["token orders"]),
        (UNIX, "", "203.0.113.9", ["address unix"]),
        # The host of one IPv6 address has the whole network.
        ("2001:db8::1", "", "", ["address 2001:0db8:0000:0000"]),
        ("2001:db8::ffff:1", "", "", ["address 2001:0db8:0000:0000"]),
        ("::ffff:192.0.2.1", "", "", ["address ::ffff:192.0.2.1"]),
    ],
)
def test_a_key_has_the_parts_that_say_something(peer: str, identity: str, forwarded: str, parts: list[str]) -> None:
    assert KEYS.of(peer, identity, forwarded).parts == tuple(parts)


def test_what_is_no_address_is_named() -> None:
    with pytest.raises(ValueError, match=r"--trusted-proxy: '10.0.0.0/99' is neither .*\n.*'here'"):
        TrustedAddresses.parse(["10.0.0.0/8", "10.0.0.0/99", "here"])


@pytest.mark.parametrize(("ease", "alone", "second"), [(1, 50, 25), (3, 75, 19)])
def test_a_client_has_as_much_as_is_free_beside_it(ease: int, alone: int, second: int) -> None:
    shares = Shares(100, ease=ease)
    held = []
    for client in (ClientKey.of("192.0.2.1"), ClientKey.of("192.0.2.2")):
        while shares.has_share_for(client):
            shares.take(client)
        held.append(shares.held_by(client))
    assert held == [alone, second]
    assert shares.has_share_for(ClientKey.of("192.0.2.3"))
    assert shares.largest() == ("address 192.0.2.1", alone)


def test_a_pool_that_is_given_back_remembers_nobody() -> None:
    shares = Shares(100)
    for amount in (0, 7):
        for identity in ("", "orders"):
            client = ClientKey.of("192.0.2.1", identity)
            shares.take(client, amount)
            shares.give_back(client, amount)
    assert (shares.used, shares._held) == (0, {})
