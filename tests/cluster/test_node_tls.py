"""TLS to nodes and nsqlookupds with nsqadmin's four flags, and tokens of Penstock nodes: against real servers."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import CLUSTER_OPTIONS, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster
from admin_console.cluster.reading.nodes import NO_ANSWER, ClusterState, Node
from queue_engine.client.http_json import HttpRefusedError
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.permission import Permission
from queue_engine.wire.user_claim import HEADER
from tests.support.certificates import Certificates, Pair
from tests.support.fake_node import FakeNode
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

OFTEN = Pace(period_s=0.05, watched_s=0.02, retry_s=0.05, retry_max_s=0.1)


@contextmanager
def reading(path: Path, **flags: str) -> Iterator[Cluster]:
    """A console that was started with these options, without their dashes."""
    texts = {option.flag: option.default for option in CLUSTER_OPTIONS}
    given = {f"--{name.replace('_', '-')}": text for name, text in flags.items()}
    assert given.keys() <= texts.keys()
    options = ClusterOptions.parse({**texts, **given})
    path.mkdir(exist_ok=True)
    cluster = Cluster(options, ChosenAddresses(path, options.addresses), lambda: None, OFTEN)
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


def tls_flags(certificates: Certificates, pair: Pair | None = None) -> dict[str, str]:
    flags = {"http_client_tls_root_ca_file": str(certificates.authority.certificate)}
    if pair is not None:
        flags |= {"http_client_tls_cert": str(pair.certificate), "http_client_tls_key": str(pair.key)}
    return flags


def read_or_failed(cluster: Cluster) -> Node:
    def looked() -> Node | None:
        state: ClusterState = cluster.state
        (node,) = state.nodes or (None,)
        return node if node is not None and (node.answers.error or node.stats) else None

    found: Node = wait_for("the node", looked)
    return found


@dataclass(frozen=True)
class Strict:
    """A Penstock that wants TLS, a client's certificate, and a token."""

    engine: RunningEngine
    token: str

    @property
    def address(self) -> str:
        """Of its plain HTTP."""
        return f"127.0.0.1:{self.engine.http_port}"


@pytest.fixture(scope="module")
def strict(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strict]:
    path = tmp_path_factory.mktemp("strict")
    now_ms = time.time_ns() // NS_PER_MS
    _, secret = TokenFile(path).create("console", [Permission.ADMINISTER], [], expires_ms=0, by="", now_ms=now_ms)
    with RunningEngine(
        path,
        tls_cert=str(certificates.server.certificate),
        tls_key=str(certificates.server.key),
        tls_root_ca_file=str(certificates.authority.certificate),
        tls_client_auth_policy="require-verify",
        https_address="127.0.0.1:0",
    ) as engine:
        yield Strict(engine, secret)


@pytest.mark.parametrize(
    ("pair", "error"), [("client", ""), ("stranger_client", "can't be reached"), ("", "can't be reached")]
)
def test_a_node_that_wants_a_client_s_certificate_gets_the_console_s(
    pair: str, error: str, strict: Strict, certificates: Certificates, tmp_path: Path
) -> None:
    flags = tls_flags(certificates, getattr(certificates, pair) if pair else None)
    # By the address of its plain HTTP, which names the port of the other.
    with reading(tmp_path, nsqd_http_address=strict.address, **flags) as cluster:
        node = read_or_failed(cluster)
        assert error in node.answers.error
        assert (node.stats is not None) == (not error), node.answers.error
        assert error or (node.info is not None and node.info.is_penstock)


@pytest.mark.parametrize(("token", "error"), [("its own", ""), ("", "TOKEN_REQUIRED"), ("guessed", "TOKEN_REQUIRED")])
def test_a_penstock_that_wants_a_token_takes_acts_of_the_console_that_has_one(
    token: str, error: str, strict: Strict, certificates: Certificates, tmp_path: Path
) -> None:
    flags = tls_flags(certificates, certificates.client)
    if token:
        path = tmp_path / "tokens"
        path.write_text(f"127.0.0.0/8 {strict.token if token == 'its own' else token}\n")
        path.chmod(0o600)
        flags["node_token_file"] = str(path)
    target = HttpAddress.parse(strict.address)
    with reading(tmp_path / "console", nsqd_http_address=strict.address, **flags) as cluster:
        act = cluster.call(lambda http: http.post_to_node(target, "/topic/create", {"topic": "orders"}))
        if not error:
            assert act.result(30) == b""
            return
        with pytest.raises(HttpRefusedError, match=error):
            act.result(30)


@pytest.mark.parametrize("has_token", [True, False])
def test_an_act_and_a_read_name_their_user_to_the_node_beside_a_token_alone(has_token: bool, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("127.0.0.0/8 s3cret\n" if has_token else "10.0.0.0/8 s3cret\n")
    path.chmod(0o600)
    with FakeNode() as a:
        a.answer_as_nsqd()
        a.answers |= {"/topic/pause": b"", "/topic/messages": {}}
        with reading(tmp_path / "console", nsqd_http_address=a.address, node_token_file=str(path)) as cluster:
            target, query, user = HttpAddress.parse(a.address), {"topic": "orders"}, "Zoë\r\nX: 1"
            cluster.call(lambda http: http.post_to_node(target, "/topic/pause", query, user=user)).result(30)
            cluster.call(lambda http: http.get_of_node(target, "/topic/messages", query, user=user)).result(30)
            for called in ("/topic/pause", "/topic/messages"):
                sent = [headers for path, headers in a.requests if path.startswith(called)][-1]
                assert sent.get(HEADER) == ("Zo%C3%AB%0D%0AX%3A 1" if has_token else None)
                assert "X" not in sent


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ({}, "CERTIFICATE_VERIFY_FAILED"),
        ({"http_client_tls_insecure_skip_verify": "true"}, ""),
        ({"http_client_tls_root_ca_file": "authority"}, ""),
        ({"http_client_tls_root_ca_file": "stranger"}, "CERTIFICATE_VERIFY_FAILED"),
    ],
)
def test_a_certificate_is_checked_unless_the_flag_says_otherwise(
    flags: dict[str, str], error: str, certificates: Certificates, tmp_path: Path
) -> None:
    if authority := flags.get("http_client_tls_root_ca_file"):
        flags = {"http_client_tls_root_ca_file": str(getattr(certificates, authority).certificate)}
    with FakeNode(tls=certificates.server_context) as a, FakeNode(tls=certificates.server_context) as lookup:
        a.answer_as_nsqd()
        lookup.answer_as_lookupd()
        addresses = {
            "nsqd_http_address": f"https://{a.address}",
            "lookupd_http_address": f"https://{lookup.address}",
        }
        with reading(tmp_path, **addresses, **flags) as cluster:
            node = read_or_failed(cluster)
            (found,) = wait_for(
                "the lookupd", lambda: [one for one in cluster.state.lookupds if one.answers != NO_ANSWER]
            )
            for error_found in (node.answers.error, found.answers.error):
                assert error in error_found
                assert bool(error) == bool(error_found)
