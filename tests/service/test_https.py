"""HTTPS of the API, plain HTTP where TLS is required, and sockets in the file system."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL

from queue_engine.service.tls import replaceable
from queue_engine.service.tls.validity import CertificateWatch, Validity
from queue_engine.vocabulary.errors import PenstockError
from tests.support.certificates import LOOPBACK, Certificates, Pair
from tests.support.clock import ManualClock
from tests.support.nsq_socket import NsqSocket, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.server import ROOT
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]


@pytest.fixture
def start_engine(tmp_path: Path) -> Iterator[StartEngine]:
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(RunningEngine(tmp_path / "data", **options))


def with_certificate(certificates: Certificates, **options: str) -> dict[str, str]:
    pair = certificates.server
    return {"tls_cert": str(pair.certificate), "tls_key": str(pair.key), "https_address": "127.0.0.1:0", **options}


def asked(engine: RunningEngine, context: ssl.SSLContext, path: str, method: str = "GET", body: bytes = b"") -> Any:
    """Status and body of an answer over HTTPS."""
    with closing(
        http.client.HTTPSConnection("127.0.0.1", engine.https_port, timeout=30, context=context)
    ) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()


def plainly(engine: RunningEngine, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", engine.http_port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def test_the_api_answers_over_https_and_in_plain(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**with_certificate(certificates))
    context = certificates.client_context()
    assert asked(engine, context, "/ping") == (200, b"OK")
    assert plainly(engine, "/ping") == (200, b"OK")
    body = bytes(range(256)) * 4_000
    assert asked(engine, context, "/pub?topic=t", "POST", body) == (200, b"OK")
    client = engine.client()
    client.subscribe("t", "c", rdy=1)
    assert client.read_message().body == body


def test_a_large_answer_comes_whole_over_https(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**with_certificate(certificates))
    status, body = asked(engine, certificates.client_context(), "/openapi.json")
    assert status == 200
    assert json.loads(body)["paths"]


@pytest.mark.parametrize("options", [{"tls_required": "true"}, {"tls_client_auth_policy": "require"}], ids=str)
def test_where_tls_is_required_plain_http_is_refused_with_the_port_of_https(
    start_engine: StartEngine, certificates: Certificates, options: dict[str, str]
) -> None:
    engine = start_engine(
        **with_certificate(certificates, tls_root_ca_file=str(certificates.authority.certificate), **options)
    )
    for path in ("/ping", "/stats", "/nonsense"):
        status, body = plainly(engine, path)
        assert status == 403
        assert json.loads(body) == {"message": "TLS_REQUIRED", "https_port": engine.https_port}
    assert asked(engine, certificates.client_context(certificates.client), "/ping") == (200, b"OK")


def test_the_pipelines_worker_reads_in_plain_where_others_must_use_tls(
    start_engine: StartEngine, certificates: Certificates
) -> None:
    engine = start_engine(**with_certificate(certificates, tls_required="true"))
    for token, status in ((engine.own_token, 200), ("x" * 64, 403), ("", 403)):
        connection = http.client.HTTPConnection("127.0.0.1", engine.http_port, timeout=30)
        connection.request("GET", "/stats?format=json", headers={"Authorization": f"Bearer {token}"})
        assert connection.getresponse().status == status
        connection.close()


def test_tcp_https_leaves_plain_http_open(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(
        **with_certificate(
            certificates,
            tls_required="tcp-https",
            tls_client_auth_policy="require-verify",
            tls_root_ca_file=str(certificates.authority.certificate),
        )
    )
    assert plainly(engine, "/ping") == (200, b"OK")
    client = engine.client()
    client.send(b"SUB t c\n")
    assert client.read_error() == "E_INVALID cannot SUB in current state (TLS required)"


def test_https_wants_a_certificate_where_the_policy_does(start_engine: StartEngine, certificates: Certificates) -> None:
    authority = str(certificates.authority.certificate)
    engine = start_engine(
        **with_certificate(certificates, tls_client_auth_policy="require-verify", tls_root_ca_file=authority)
    )
    assert asked(engine, certificates.client_context(certificates.client), "/ping") == (200, b"OK")
    for pair in (None, certificates.stranger_client):
        with pytest.raises((OSError, http.client.HTTPException)):
            asked(engine, certificates.client_context(pair), "/ping")


def test_new_connections_get_a_replaced_certificate_and_open_ones_go_on(
    start_engine: StartEngine, certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaceable, "LOOK_INTERVAL_NS", 0)
    files = {"tls_cert": certificates.server.certificate, "tls_key": certificates.server.key}
    here = {option: Path(shutil.copy(path, tmp_path / option)) for option, path in files.items()}
    engine = start_engine(**{option: str(path) for option, path in here.items()}, https_address="127.0.0.1:0")
    old = http.client.HTTPSConnection("127.0.0.1", engine.https_port, timeout=30, context=certificates.client_context())
    old.connect()
    names = [("127.0.0.1", engine.https_port)]
    before = ssl.get_server_certificate(names[0])
    newer = certificates.authority.issue("renewed", hosts=("127.0.0.1", "localhost"))
    os.replace(shutil.copy(newer.certificate, tmp_path / "new"), here["tls_cert"])
    assert ssl.get_server_certificate(names[0]) == before  # its key is still to come
    os.replace(shutil.copy(newer.key, tmp_path / "new"), here["tls_key"])
    assert ssl.get_server_certificate(names[0]).strip() == newer.certificate.read_text().strip() != before.strip()
    assert asked(engine, certificates.client_context(), "/ping") == (200, b"OK")
    old.request("GET", "/ping")
    assert old.getresponse().read() == b"OK"
    old.close()


def copied(pair: Pair, directory: Path) -> dict[str, str]:
    """Options with a copy of a certificate and its key, whose files may be replaced."""
    files = {"tls_cert": pair.certificate, "tls_key": pair.key}
    return {option: str(shutil.copy(path, directory / option)) for option, path in files.items()}


def replace_with(pair: Pair, directory: Path) -> None:
    for option, path in (("tls_key", pair.key), ("tls_cert", pair.certificate)):
        os.replace(shutil.copy(path, directory / "new"), directory / option)


def expiries(engine: RunningEngine) -> dict[str, float]:
    text = plainly(engine, "/metrics")[1].decode()
    found = re.findall(r'^penstock_tls_certificate_expiry_seconds\{listener="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {listener: float(value) for listener, value in found}


@pytest.mark.parametrize(
    ("valid_for_days", "sentence"),
    [(-2, "has expired at 20"), (0.9, "expires in 21 hours, at 20"), (20.9, "expires in 20 days, at 20"), (22, "")],
)
def test_a_certificate_that_ends_soon_is_warned_of(
    start_engine: StartEngine,
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    valid_for_days: float,
    sentence: str,
) -> None:
    pair = certificates.authority.issue("ending", hosts=LOOPBACK, valid_for=timedelta(days=valid_for_days))
    engine = start_engine(**copied(pair, tmp_path), https_address="127.0.0.1:0")
    status, ready = plainly(engine, "/readyz")
    assert status == 200
    told = [line for line in ready.decode().splitlines() if "the certificate in" in line]
    logged = [record.getMessage() for record in caplog.records if "the certificate in" in record.getMessage()]
    if not sentence:
        assert (told, logged) == ([], [])
    else:
        assert told[0].startswith(f"the certificate in {tmp_path / 'tls_cert'} {sentence}")
        assert logged == [f"TLS: {told[0]}"]
    found = expiries(engine)
    assert set(found) == {"tcp", "https"}
    assert all(abs(at_s - time.time() - valid_for_days * 86_400) < 120 for at_s in found.values())


def test_a_renewed_file_is_taken_by_itself_without_a_connection(
    start_engine: StartEngine, certificates: Certificates, tmp_path: Path
) -> None:
    ending = certificates.authority.issue("ending", hosts=LOOPBACK, valid_for=timedelta(hours=3))
    engine = start_engine(**copied(ending, tmp_path), https_address="127.0.0.1:0")
    client = engine.layered()
    client.negotiate(certificates.client_context())
    client.subscribe("t", "c", rdy=10)
    assert "expires in 2 hours" in plainly(engine, "/readyz")[1].decode()
    replace_with(certificates.authority.issue("renewed", hosts=LOOPBACK, valid_for=timedelta(days=90)), tmp_path)
    wait_for("the new end", lambda: expiries(engine)["tcp"] > time.time() + 80 * 86_400)
    assert "the certificate in" not in plainly(engine, "/readyz")[1].decode()
    assert asked(engine, certificates.client_context(), "/pub?topic=t", "POST", b"m") == (200, b"OK")
    assert client.read_message().body == b"m", "the open connection goes on"


def test_new_files_that_can_not_be_used_are_named_by_readyz(
    start_engine: StartEngine, certificates: Certificates, tmp_path: Path
) -> None:
    engine = start_engine(**copied(certificates.server, tmp_path), https_address="127.0.0.1:0")
    shutil.copy(certificates.stranger_client.key, tmp_path / "tls_key")
    sentence = "the certificate of TLS stays as it was: "
    wait_for("the look", lambda: sentence in plainly(engine, "/readyz")[1].decode())
    shutil.copy(certificates.server.key, tmp_path / "tls_key")
    wait_for("the mended file", lambda: sentence not in plainly(engine, "/readyz")[1].decode())


def test_without_tls_no_certificate_expires(start_engine: StartEngine) -> None:
    assert expiries(start_engine()) == {}


def test_a_warning_comes_once_a_day_and_again_for_another_certificate(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    now_s = clock.time_ns() / 1e9

    class Served:
        complaint = ""
        validity = Validity("cert.pem", now_s - 86_400, now_s + 5 * 86_400)

        def current(self) -> "Served":
            return self

    served = Served()
    watch = CertificateWatch(served, ("tcp",), clock)
    for hours, warnings in ((0, 1), (23, 1), (2, 2), (1, 2)):
        clock.advance(ms=hours * 3_600_000)
        watch.look()
        assert caplog.text.count("TLS: the certificate in cert.pem expires in") == warnings
    served.validity = Validity("cert.pem", now_s + 2 * 86_400, now_s + 90 * 86_400)
    watch.look()
    assert "TLS: the certificate in cert.pem is valid from " in caplog.text


def test_plain_bytes_on_https_are_cut(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**with_certificate(certificates))
    with socket.create_connection(("127.0.0.1", engine.https_port), timeout=30) as plain:
        plain.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"HTTP" not in plain.recv(1_000)
    assert asked(engine, certificates.client_context(), "/ping") == (200, b"OK")


def test_a_new_handshake_within_a_connection_is_refused(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**with_certificate(certificates))
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)
    plain = socket.create_connection(("127.0.0.1", engine.https_port), timeout=30)
    plain.settimeout(None)  # pyOpenSSL knows no timeouts; pytest's own holds
    with plain:
        client = SSL.Connection(context, plain)
        client.set_connect_state()
        client.do_handshake()
        assert client.renegotiate()
        with pytest.raises(SSL.Error, match="no renegotiation"):
            client.do_handshake()
    assert asked(engine, certificates.client_context(), "/ping") == (200, b"OK")


def test_the_readmes_commands_make_a_certificate_that_clients_accept(start_engine: StartEngine, tmp_path: Path) -> None:
    text = (ROOT / "queue_engine" / "service" / "tls" / "README.md").read_text()
    block = re.search(r"<!-- command: certificate -->\n```sh\n(.*?)```\n", text, re.DOTALL)
    assert block
    subprocess.run(["sh", "-euc", block[1]], cwd=tmp_path, check=True, capture_output=True)
    assert stat.S_IMODE(os.stat(tmp_path / "server.key").st_mode) == 0o600
    engine = start_engine(
        tls_cert=str(tmp_path / "server.pem"), tls_key=str(tmp_path / "server.key"), https_address="127.0.0.1:0"
    )
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python 3.13 and later do by themselves
    assert asked(engine, context, "/ping") == (200, b"OK")


# Options that can't be used.


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tls_cert": "CERT", "tls_key": "STRANGER_KEY"}, "the key does not belong to the certificate"),
        ({"tls_cert": "/nowhere.pem", "tls_key": "KEY"}, "^--tls-cert /nowhere.pem can't be read: No such file"),
        ({"tls_cert": "CERT", "tls_key": "/nowhere.key"}, "^--tls-key /nowhere.key can't be read: No such file"),
        ({"tls_cert": "KEY", "tls_key": "KEY"}, "can't be used: "),
        ({"tls_cert": "CERT", "tls_key": "KEY", "tls_root_ca_file": "/nowhere.pem"}, "--tls-root-ca-file /nowhere.pem"),
        ({"tls_cert": "CERT", "tls_key": "KEY", "tls_root_ca_file": "KEY"}, "--tls-root-ca-file .* can't be used"),
    ],
    ids=str,
)
def test_files_that_can_t_be_used_stop_the_start_with_one_sentence(
    start_engine: StartEngine, certificates: Certificates, options: dict[str, str], text: str
) -> None:
    places = {
        "CERT": str(certificates.server.certificate),
        "KEY": str(certificates.server.key),
        "STRANGER_KEY": str(certificates.stranger_client.key),
    }
    with pytest.raises(PenstockError, match=text) as refused:
        start_engine(**{name: places.get(value, value) for name, value in options.items()})
    assert "\n" not in str(refused.value)


# Sockets in the file system.


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("any-name", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


def over(path: Path, target: str) -> Any:
    connection = _UnixConnection(path)
    connection.request("GET", target)
    answer = connection.getresponse().read()
    connection.close()
    return json.loads(answer)


def test_both_protocols_are_served_at_paths_and_the_paths_go_with_the_server(tmp_path: Path) -> None:
    tcp, api = tmp_path / "tcp.sock", tmp_path / "http.sock"
    with RunningEngine(tmp_path / "data", tcp_address=str(tcp), http_address=str(api)):
        assert stat.S_IMODE(os.stat(tcp).st_mode) == stat.S_IMODE(os.stat(api).st_mode) == 0o660
        info = over(api, "/info")
        assert (info["tcp_port"], info["http_port"]) == (-1, -1)
        with NsqSocket(tcp) as client:
            client.publish("t", b"through the file system")
            client.subscribe("t", "c", rdy=1)
            assert client.read_message().body == b"through the file system"
            found = over(api, "/stats?format=json&topic=t")["topics"][0]["channels"][0]["clients"][0]
            assert found["remote_address"] == "unix"
    assert not tcp.exists()
    assert not api.exists()


def test_tls_is_spoken_at_a_path(tmp_path: Path, certificates: Certificates) -> None:
    path = tmp_path / "tcp.sock"
    pair = certificates.server
    with (
        RunningEngine(
            tmp_path / "data",
            tcp_address=str(path),
            tls_cert=str(pair.certificate),
            tls_key=str(pair.key),
            https_address="127.0.0.1:0",
        ),
        NsqSocket(path) as client,
    ):
        client.send(b"IDENTIFY\n" + sized(b'{"feature_negotiation":true,"tls_v1":true}'))
        assert b'"tls_v1":true' in client.read_response()
        client._socket = certificates.client_context().wrap_socket(client._socket, server_hostname="localhost")
        client.expect_ok()
        client.publish("t", b"encrypted")


def test_a_socket_that_a_kill_left_behind_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "tcp.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with RunningEngine(tmp_path / "data", tcp_address=str(path)), NsqSocket(path) as client:
        client.publish("t", b"x")


def test_what_is_no_stale_socket_stays_and_the_start_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tcp.sock"
    path.write_text("a file of somebody's")
    with pytest.raises(PenstockError, match=r"can't listen on .*tcp\.sock: a file is there that is no socket"):
        RunningEngine(tmp_path / "data", tcp_address=str(path)).__enter__()
    assert path.read_text() == "a file of somebody's"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(PenstockError, match="another process listens there"):
            RunningEngine(tmp_path / "data", tcp_address=str(path)).__enter__()
        assert path.exists()
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other, ExitStack() as stack:
        other.bind(str(path))
        other.listen(0)
        for _ in range(4):  # it accepts none: its line is full
            waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(str(path))
        with pytest.raises(PenstockError, match="another process listens there"):
            RunningEngine(tmp_path / "data", tcp_address=str(path)).__enter__()
    with pytest.raises(PenstockError, match="can't listen on"):
        RunningEngine(tmp_path / "data", tcp_address=str(tmp_path / ("long" * 30))).__enter__()
