"""Which addresses the console calls."""

from pathlib import Path

import pytest

from admin_console.cluster.calls.addresses import HttpAddress, ip_of
from admin_console.cluster.calls.node_rules import NodeRules
from admin_console.cluster.calls.node_tokens import NodeTokens


def address(text: str) -> HttpAddress:
    return HttpAddress.parse(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("nsq-a:4151", "nsq-a:4151"),
        ("http://NSQ-A:4151/", "nsq-a:4151"),
        ("https://nsq-a:4151", "https://nsq-a:4151"),
        ("[fd00::1]:4151", "[fd00::1]:4151"),
    ],
)
def test_an_address_is_read_with_and_without_a_scheme(text: str, written: str) -> None:
    assert str(address(text)) == written


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nsq-a",
        ":4151",
        "ftp://nsq-a:1",
        "a b:1",
        "u@a:1",
        "a:1/x",
        "a:1?x",
        "fd00::1:4151",
    ],
)
def test_what_is_no_address_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="is neither HOST:PORT nor https://HOST:PORT"):
        address(text)


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("127.0.0.1", "a loopback address"),
        ("127.9.9.9", "a loopback address"),
        ("[::1]", "a loopback address"),
        ("[::ffff:127.0.0.1]", "a loopback address"),
        ("[64:ff9b::7f00:1]", "a loopback address"),
        ("[2002:7f00:1::]", "a loopback address"),
        ("localhost", "a loopback address"),
        ("x.localhost", "a loopback address"),
        ("169.254.1.1", "a link-local address"),
        ("[fe80::1]", "a link-local address"),
        ("169.254.169.254", "the address of a metadata service"),
        ("[::ffff:169.254.169.254]", "the address of a metadata service"),
        ("[fd00:ec2::254]", "the address of a metadata service"),
        ("100.100.100.200", "the address of a metadata service"),
        ("metadata.google.internal", "the address of a metadata service"),
        ("0.0.0.0", "no address of a machine"),
        ("[::]", "no address of a machine"),
        ("255.255.255.255", "no address of a machine"),
        ("224.0.0.1", "a multicast address"),
    ],
)
def test_without_a_pattern_addresses_of_this_machine_and_of_clouds_are_refused(host: str, kind: str) -> None:
    assert NodeRules().refusal(address(f"{host}:4151")).endswith(f" is {kind}")
    assert NodeRules(patterns=["*"]).refusal(address(f"{host}:4151")) == ""


def test_without_a_pattern_ordinary_addresses_and_names_are_called() -> None:
    assert [NodeRules().refusal(address(one)) for one in ("10.0.0.5:4151", "nsq-a:4151", "[fd00::5]:4151")] == [""] * 3


def test_a_configured_address_is_called_whatever_it_is_and_allows_its_kind() -> None:
    rules = NodeRules([address("127.0.0.1:4161")])
    assert rules.refusal(address("127.0.0.1:4161")) == rules.refusal(address("127.0.0.1:9999")) == ""
    assert rules.refusal(address("localhost:9999")) == ""
    assert rules.refusal(address("169.254.1.1:1")) == "169.254.1.1 is a link-local address"
    # One configured metadata address is no reason to call another port of it.
    rules = NodeRules([address("169.254.169.254:4151")])
    assert rules.refusal(address("169.254.169.254:4151")) == ""
    assert rules.refusal(address("169.254.169.254:80")) == "169.254.169.254 is the address of a metadata service"


def test_with_patterns_only_what_they_name_is_called() -> None:
    rules = NodeRules(patterns=["10.1.0.0/16", "*.nsq.internal"])
    assert rules.refusal(address("10.1.2.3:4151")) == ""
    assert rules.refusal(address("10.2.2.3:4151")) == "10.2.2.3 is in no --allowed-node"
    # A name is checked when it is resolved: by its text, or by what it resolves to.
    ip = ip_of("10.2.0.1")
    assert ip is not None
    assert rules.refusal_of_resolved("a.nsq.internal", 4151, ip) == ""
    assert rules.refusal_of_resolved("a.example", 4151, ip) == "a.example (10.2.0.1) is in no --allowed-node"


def test_a_name_within_a_pattern_does_not_lead_to_this_machine() -> None:
    loopback = ip_of("127.0.0.1")
    assert loopback is not None
    rules = NodeRules(patterns=["*.nsq.internal"])
    assert (
        rules.refusal_of_resolved("a.nsq.internal", 1, loopback) == "a.nsq.internal (127.0.0.1) is a loopback address"
    )
    rules = NodeRules(patterns=["*.nsq.internal", "127.0.0.0/8"])
    assert rules.refusal_of_resolved("a.nsq.internal", 1, loopback) == ""


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"'10\.1\.0\.0/33' is neither a host's name"):
        NodeRules(patterns=["10.1.0.0/33"])


def test_a_node_behind_nat_is_called_where_the_map_says(tmp_path: Path) -> None:
    named, target = address("10.0.0.5:4151"), address("127.0.0.1:14151")
    rules = NodeRules(patterns=["nothing.example"], mapped={named: target})
    assert rules.target_of(named) == target
    assert rules.refusal(target) == ""


def test_the_first_line_whose_pattern_has_the_host_gives_the_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# ours\nnsq-a penstock_a\n\n*.nsq.internal\tpenstock_b\n10.0.0.0/8 penstock_c\n")
    path.chmod(0o600)
    tokens = NodeTokens.read(str(path))
    hosts = ("nsq-a:1", "x.nsq.internal:1", "10.9.9.9:1", "nsq-b:1")
    assert [tokens.of(address(one)) for one in hosts] == ["penstock_a", "penstock_b", "penstock_c", ""]


@pytest.mark.parametrize(
    ("text", "mode", "complaint"),
    [
        ("nsq-a\n", 0o600, "line 1: it is not PATTERN TOKEN"),
        ("nsq-a t u\n", 0o600, "line 1: it is not PATTERN TOKEN"),
        ("# x\n10.0.0.0/33 secret\n", 0o600, "line 2: '10.0.0.0/33' is neither"),
        ("nsq-a töken\n", 0o600, "line 1: it has other characters than ASCII"),
        ("nsq-a t\n", 0o644, "can be read or written by other accounts"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_without_its_tokens(
    text: str, mode: int, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ValueError, match=complaint.replace("'", ".")) as refused:
        NodeTokens.read(str(path))
    assert "secret" not in str(refused.value).replace(str(path), "")
