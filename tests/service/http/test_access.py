"""The API refuses requests of web pages in the operator's browser: DNS rebinding and cross-site posts."""

import socket
from pathlib import Path

import pytest

from queue_engine.service.http.rules import PATHS
from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.options import Options
from queue_engine.vocabulary.permission import Permission
from tests.service.http.server import http_server, request_bytes


async def test_our_own_names_are_answered(tmp_path: Path) -> None:
    async with http_server(tmp_path, allowed_host=("console.example",)) as server:
        for host in (
            "localhost",
            "LOCALHOST:4151",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.7.7.7",
            "[::1]",
            "[::1]:4151",
            "queue.example",
            "Queue.Example:4151",
            "console.example",
            socket.gethostname(),
        ):
            assert (await server.request("POST", "/pub?topic=t", b"x", {"Host": host})).body == b"OK", host


@pytest.mark.parametrize(
    ("allowed", "host", "is_answered"),
    [
        (("*.svc.example",), "queue.team.svc.example:4151", True),
        (("*.svc.example",), "svc.example", False),
        (("*.svc.example",), "evilsvc.example", False),
        ((".svc.example",), "svc.example", True),
        (("10.0.0.7", "[fd00::7]"), "10.0.0.7:4151", True),
        (("10.0.0.7", "[fd00::7]"), "[fd00::7]:4151", True),
        (("*",), "evil.example", True),
        (("*",), "10.0.0.1", True),
        ((), "queue:4151", True),  # the first label of the broadcast address
        ((), "host.docker.internal", True),
        ((), "docker.internal", False),
        ((), "queue.svc.cluster.local", True),
        ((), "svc.cluster.local", False),
        ((), "queue.localhost", True),
        ((), "queue.evil", False),
    ],
)
async def test_names_and_patterns_that_are_allowed(
    tmp_path: Path, allowed: tuple[str, ...], host: str, is_answered: bool
) -> None:
    async with http_server(tmp_path, allowed_host=allowed) as server:
        answer = await server.request("GET", "/ping", headers={"Host": host})
        assert answer.status == (200 if is_answered else 403)


async def test_any_host_may_be_named_and_browsers_stay_out(tmp_path: Path) -> None:
    async with http_server(tmp_path, allowed_host=("*",)) as server:
        for headers in (
            {"Host": "evil.example", "Sec-Fetch-Site": "cross-site"},
            {"Host": "evil.example", "Sec-Fetch-Site": "same-site"},
            {"Host": "queue.example", "Origin": "http://evil.example"},
            {"Host": "queue.example", "Origin": "null"},
        ):
            answer = await server.request("POST", "/pub?topic=t", b"x", headers)
            assert (answer.status, answer.message) == (403, "FORBIDDEN_ORIGIN")
        assert server.engine.topics == {}


@pytest.mark.parametrize("text", ["a b", "*.", "a*.b", "**", "*x", "http://a", "a:b:4151/", ""])
def test_what_is_no_host_name_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(OptionsError, match=r"--allowed-host: .* is not a host name"):
        Options(allowed_host=(text,)).validate()


FOREIGN_HOSTS = (
    "evil.example",
    "evil.example:4151",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil@localhost",
    "localhost@evil.example",
    "localhost:evil",
    "10.0.0.1",
    "0.0.0.0",
    "169.254.169.254",
    "[fe80::1]",
    "127.1",
    "2130706433",
    "0x7f.1",
    "",
    "localhost/x",
)


async def test_a_foreign_host_is_refused_and_does_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for host in FOREIGN_HOSTS:
            server.acts.clear()
            for method, target in (("POST", "/pub?topic=t"), ("POST", "/topic/create?topic=t"), ("GET", "/stats")):
                answer = await server.request(method, target, b"x" * (method == "POST"), {"Host": host})
                assert (answer.status, answer.message) == (403, "FORBIDDEN_HOST"), host
                assert f"Host {host} is not a name of this server" in answer.detail
                assert "--allowed-host" in answer.detail
            assert server.engine.topics == {}, host
            assert [(act.action, act.topic) for act in server.acts] == [
                ("foreign_request", "t"),
                ("foreign_request", "t"),
                ("foreign_request", ""),
            ], host
            assert server.acts[1].error.startswith("POST /topic/create was refused: Host ")


async def test_a_host_in_the_target_counts_too(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        assert (await server.request("GET", "http://localhost:1/ping")).body == b"OK"
        answer = await server.request("GET", "http://evil.example/ping", headers={"Host": "localhost"})
        assert answer.status == 403


FOREIGN_ORIGINS = (
    "http://evil.example",
    "null",
    "",
    "http://127.0.0.1:1",
    "http://localhost",
    "https://127.0.0.1.evil.example",
    "file://",
    "http://evil.example/127.0.0.1",
)


async def test_a_foreign_origin_is_refused_and_does_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for origin in FOREIGN_ORIGINS:
            server.acts.clear()
            headers = {"Origin": origin, "Content-Type": "text/plain"}
            answer = await server.request("POST", "/pub?topic=t", b"x", headers)
            assert (answer.status, answer.message) == (403, "FORBIDDEN_ORIGIN"), origin
            assert server.engine.topics == {}, origin
            [act] = server.acts
            assert (act.action, act.topic, act.outcome) == ("foreign_request", "t", None)
            assert act.error == f"POST /pub was refused: requests from pages of {origin} are refused."
            assert act.remote_address.startswith("127.0.0.1:")
        same = f"http://127.0.0.1:{server.port}"
        assert (await server.request("POST", "/pub?topic=t", b"x", {"Origin": same})).body == b"OK"


@pytest.mark.parametrize(
    ("method", "site", "status"),
    [
        ("POST", "cross-site", 403),
        ("GET", "cross-site", 403),
        ("POST", "same-site", 403),
        ("GET", "same-site", 200),
        ("POST", "same-origin", 200),
        ("GET", "none", 200),
        ("POST", "anything", 403),
    ],
)
async def test_what_the_browser_says_of_the_page(tmp_path: Path, method: str, site: str, status: int) -> None:
    async with http_server(tmp_path) as server:
        target = "/pub?topic=t" if method == "POST" else "/stats"
        answer = await server.request(method, target, b"x" * (method == "POST"), {"Sec-Fetch-Site": site})
        assert answer.status == status


async def test_no_answer_invites_another_site_to_read_it(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/stats")
        assert not [name for name in answer.headers if name.startswith(b"access-control")]
        assert answer.headers[b"x-content-type-options"] == b"nosniff"


ELSEWHERE = {"Host": "queue.vip.example:4151"}
# What nsqd's own clients use by any name, and what keeps no page away that has its own name resolve to the server.
READ_BY_ANY_HOST = {"/ping", "/livez", "/readyz", "/info", "/stats"}


async def test_the_daemon_takes_what_is_no_get_by_any_host_and_of_gets_those_that_nsqd_has(tmp_path: Path) -> None:
    async with http_server(tmp_path, takes_any_host=True) as server:
        for path, rule in PATHS.items():
            for method in rule.methods:
                answer = await server.request(method, path.replace("{option}", "log_level"), headers=ELSEWHERE)
                is_let_in = method != "GET" or path in READ_BY_ANY_HOST
                assert (b"FORBIDDEN" not in answer.body) == is_let_in, (method, path)
        assert (await server.request("POST", "/pub?topic=t", b"x", ELSEWHERE)).body == b"OK"
        socket = await server.connect()
        await socket.send(request_bytes("HEAD", "/metrics", headers=ELSEWHERE))
        assert (await socket.reader.readline()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "mark",
    [{"Origin": "http://queue.vip.example:4151"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-origin"}],
)
async def test_the_daemon_refuses_browsers_by_another_name(tmp_path: Path, mark: dict[str, str]) -> None:
    async with http_server(tmp_path, takes_any_host=True) as server:
        for method, target in (("POST", "/pub?topic=t"), ("PUT", "/config/log_level"), ("GET", "/stats")):
            answer = await server.request(method, target, b"x" * (method != "GET"), {**ELSEWHERE, **mark})
            assert (answer.status, answer.message) == (403, "FORBIDDEN_HOST"), (method, target)
        assert server.engine.topics == {}


@pytest.mark.parametrize("takes_any_host", [True, False])
async def test_a_token_lets_any_host_pass_and_no_foreign_page(tmp_path: Path, takes_any_host: bool) -> None:
    async with http_server(tmp_path, takes_any_host=takes_any_host) as server:
        token = server.new_token(Permission.PUBLISH)
        own_page = {"Origin": f"http://{ELSEWHERE['Host']}"}
        assert (await server.request("GET", "/metrics", headers={**ELSEWHERE, **token})).status == 200
        assert (await server.request("POST", "/pub?topic=t", b"x", {**ELSEWHERE, **token, **own_page})).body == b"OK"
        foreign_page = {"Origin": "http://evil.example"}
        answer = await server.request("POST", "/pub?topic=t", b"x", {**ELSEWHERE, **token, **foreign_page})
        assert answer.message == "FORBIDDEN_ORIGIN"
        # Any other token is a guess, and counts as one.
        guess = {"Authorization": f"Bearer pst_{'0' * 43}"}
        assert (await server.request("GET", "/metrics", headers={**ELSEWHERE, **guess})).message == "FORBIDDEN_HOST"
        assert server.gate.guesses is not None
        assert server.gate.guesses.counts["http"] == 1


async def test_each_refusal_is_counted_and_the_log_names_the_option(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_server(tmp_path, takes_any_host=True) as server:
        for number in range(3):
            await server.request("GET", "/metrics", headers={"Host": f"n{number}.example"})
        await server.request("POST", "/pub?topic=t", b"x", {"Origin": "http://evil.example"})
        assert server.engine.stats.now().refused_requests == {"host": 3, "origin": 1}
    lines = [record.getMessage() for record in caplog.records if "HTTP requests refused" in record.getMessage()]
    assert len(lines) == 2
    assert lines[0].startswith("HTTP requests refused for their Host (--allowed-host): 1; the last one, of 127.0.0.1:")
    assert lines[1].startswith(
        "HTTP requests refused for their Origin (--allowed-host): 1; the last one, of 127.0.0.1:"
    )
    assert "Host n0.example is not a name of this server" in lines[0]
