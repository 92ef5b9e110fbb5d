"""nsqadmin's interface on a cluster: an embedded engine and two nsqds, by one nsqlookupd."""

import ipaddress
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.conf import settings
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.nsqadmin.cluster_now import ClusterNow
from admin_console.nsqadmin_options import NsqadminOptions
from admin_console.vocabulary.roles import Role
from queue_engine.service.identity.token_file import TokenFile
from tests.support.fake_node import FakeNode
from tests.support.fake_nsqd import FakeNsqd, channel, topic
from tests.support.pages.cluster_console import ClusterConsole, cluster_console
from tests.support.pages.console import client_of, make_user
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


# Of nsqadmin's options, those that it answers as texts.
CONFIG_TEXTS = (
    "log_prefix", "http_address", "base_path", "dev_static_dir", "graphite_url", "statsd_prefix",
    "statsd_counter_format", "statsd_gauge_format", "http_client_tls_root_ca_file", "http_client_tls_cert",
    "http_client_tls_key", "allow_config_from_cidr", "notification_http_endpoint", "acl_http_header",
)  # fmt: skip


def orders(depth: int) -> dict[str, Any]:
    return topic("orders", channel("billing", depth=depth, message_count=depth), message_count=depth)


@contextmanager
def cluster(data_path: Path, *, gone: bool = False) -> Iterator[tuple[ClusterConsole, FakeNsqd, FakeNsqd, FakeNode]]:
    """gone: the second nsqd has stopped answering."""
    with FakeNsqd.of(orders(40)) as a, FakeNsqd.of(orders(2)) as b, FakeNode() as lookupd:
        lookupd.answer_as_lookupd(a, b, topics=("orders",))
        lookupd.answers["/topics"] = {"topics": ["orders", "empty"]}
        for path in ("/topic/create", "/channel/create", "/topic/delete", "/channel/delete", "/topic/tombstone"):
            lookupd.answers[path] = b""
        with cluster_console(data_path, lookupds=[lookupd]) as console:
            console.see_topic("orders", 2)
            if gone:
                b.failing = (500, {}, b"{}")
            yield console, a, b, lookupd


@pytest.fixture
def admin() -> Client:
    return client_of(make_user(role=Role.ADMIN))


def send(client: Client, method: str, path: str, fields: dict[str, Any] | None = None, **headers: str) -> Any:
    """Status and document of an answer. fields: of the JSON body."""
    body = orjson.dumps(fields) if fields is not None else b""
    answer = client.generic(method, path, body, content_type="application/json", headers=headers)
    assert answer["Content-Type"].startswith("application/json"), answer.content[:300]
    return answer.status_code, orjson.loads(answer.content)


def test_reads_are_of_this_moment_and_over_all_nodes(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path) as (console, a, b, _):
        console.engine.calls.create_topic("orders").result(30)
        console.engine.calls.create_channel("orders", "billing").result(30)
        console.engine.calls.publish("orders", [b"m"] * 3).result(30)
        a.channel("orders", "billing")["depth"] = 100
        status, document = send(admin, "GET", "/api/topics/orders/billing")
        assert (status, document["depth"], document["message"]) == (200, 105, "")
        nodes = {one["node"]: one["depth"] for one in document["nodes"]}
        assert nodes == {a.address: 100, b.address: 2, console.own: 3}
        assert send(admin, "GET", "/api/topics") == (200, {"topics": ["empty", "orders"], "message": ""})

        def counted() -> int:
            return sum(one["message_count"] for one in send(admin, "GET", "/api/counter")[1]["stats"].values())

        wait_for("the engine's newest figures", lambda: counted() == 45)
        status, document = send(admin, "GET", f"/api/nodes/{b.address}")
        assert (status, document["node"], document["total_messages"]) == (200, b.address, 2)
        status, document = send(admin, "GET", "/api/nodes")
        listed = {f"{one['broadcast_address']}:{one['http_port']}": one for one in document["nodes"]}
        own = f"{platform.node()}:{console.own.rpartition(':')[2]}"
        assert listed.keys() == {a.address, b.address, own}
        status, document = send(admin, "GET", f"/api/nodes/{own}")
        assert (status, document["total_messages"]) == (200, 3)
        assert listed[a.address]["topics"] == [{"topic": "orders", "tombstoned": False}]


def test_what_is_missing_has_nsqadmins_words(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, _, _, lookupd):
        assert send(admin, "GET", "/api/nodes/127.0.0.1:1") == (404, {"message": "NODE_NOT_FOUND"})
        assert send(admin, "GET", "/api/topics/orders/none") == (200, {"message": ""})
        sentence = 'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"'
        message = f"UPSTREAM_ERROR: failed to query any nsqlookupd: {sentence}"
        long = "a" * 65
        for path in ("none", "none/billing", "bad%20name", "bad%20name/x", long, "caf%C3%A9"):
            assert send(admin, "GET", f"/api/topics/{path}") == (502, {"message": message})
        for method, path in (
            ("POST", "/api/topics/none"),
            ("POST", "/api/topics/none/x"),
            ("POST", "/api/topics/bad%20name"),
            ("DELETE", "/api/topics/none"),
            ("DELETE", "/api/topics/bad%20name/x"),
        ):
            assert send(admin, method, path, {"action": "pause"}) == (502, {"message": message})
        # No node has the channel; of a topic without nodes there is nothing to do.
        missing = 'got response 404 Not Found "{\\"message\\":\\"CHANNEL_NOT_FOUND\\"}"'
        found = send(admin, "POST", "/api/topics/orders/none", {"action": "pause"})
        assert found == (200, {"message": f"WARNING: {missing}\n{missing}"})
        assert send(admin, "DELETE", "/api/topics/orders/none") == found
        assert send(admin, "GET", "/api/topics/orders/bad%20name") == (200, {"message": ""})
        bad = 'got response 400 Bad Request "{\\"message\\":\\"INVALID_ARG_CHANNEL\\"}"'
        found = send(admin, "POST", "/api/topics/orders/bad%20name", {"action": "pause"})
        assert found == (200, {"message": f"WARNING: {bad}\n{bad}"})
        assert send(admin, "POST", "/api/topics/empty", {"action": "pause"}) == (200, {"message": ""})
        # A topic that has lost its producers is there, and empty.
        status, document = send(admin, "GET", "/api/topics/empty")
        assert (status, document["depth"], document["nodes"], document["channels"]) == (200, 0, [], None)
        assert document["e2e_processing_latency"]["percentiles"] is None
        assert send(admin, "GET", "/api/graphite?metric=bad&target=x") == (400, {"message": "INVALID_ARG_METRIC"})
        assert send(admin, "GET", "/api/graphite?metric=rate") == (400, {"message": "INVALID_ARG_TARGET"})
        assert send(admin, "GET", "/api/graphite?metric=rate&target=x") == (500, {"message": "INTERNAL_ERROR"})
        assert send(admin, "GET", "/api/graphite?metric=rate&target=") == (500, {"message": "INTERNAL_ERROR"})
        for path in ("/api/topics/orders/a/b", "/api/nodes/a/b", "/config/", "/api/nodes/a%20b"):
            assert send(admin, "GET", path) == (404, {"message": "NOT_FOUND"})
        for path in (
            *("/api/topics", "/api/topics/orders", "/api/counter", "/config/log_level"),
            *("/api/topics/a%0Ab", "/api/topics/a%3Fb", "/api/topics/a%23b/c%20d", "/api/topics/caf%C3%A9"),
        ):
            for query in ("", "?inactive=true", "?a=%2F%20b&c=%C3%A9"):
                moved = admin.get(f"{path}/{query}")
                assert (moved.status_code, moved["Location"]) == (301, path + query)
        moved = admin.post("/api/topics/orders/")
        assert (moved.status_code, moved["Location"]) == (307, "/api/topics/orders")
        assert send(admin, "PATCH", "/api/topics") == (405, {"message": "METHOD_NOT_ALLOWED"})
        assert admin.generic("PATCH", "/api/topics")["Allow"] == "GET, OPTIONS, POST"
        bad = send(admin, "POST", "/api/topics", {"topic": "bad name"})
        assert bad == (400, {"message": "INVALID_TOPIC"})
        bad = send(admin, "POST", "/api/topics", {"topic": "good", "channel": "bad name"})
        assert bad == (400, {"message": "INVALID_CHANNEL"})
        bad = send(admin, "POST", "/api/topics/orders", {"action": "explode"})
        assert bad == (400, {"message": "INVALID_ACTION"})
        assert send(admin, "POST", "/api/topics/orders") == (400, {"message": "EOF"})
        wrong = (400, {"message": "json: cannot unmarshal number into Go struct field .channel of type string"})
        assert send(admin, "POST", "/api/topics", {"topic": "good", "channel": 1}) == wrong
        assert not any(one.path.endswith("/create") for one in lookupd.acts)
        assert send(admin, "DELETE", "/api/nodes/127.0.0.1:1", {"topic": 1}) == (400, {"message": "INVALID_BODY"})
        assert send(admin, "DELETE", "/api/nodes/127.0.0.1:1") == (400, {"message": "INVALID_BODY"})
        assert send(admin, "POST", "/api/topics/orders", {"Action": "unpause"})[0] == 200
        node = send(admin, "DELETE", "/api/nodes/127.0.0.1:1", {"topic": ""})
        assert node == (400, {"message": "INVALID_TOPIC"})


def test_without_nsqlookupds_an_act_on_what_is_not_there_is_a_warning(admin: Client, tmp_path: Path) -> None:
    missing = 'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"'
    with FakeNsqd.of(orders(40)) as a, cluster_console(tmp_path, a) as console:
        console.see_topic("orders", 1)
        for method, path in (("POST", "none"), ("DELETE", "none"), ("DELETE", "none/x"), ("DELETE", "bad%20name")):
            found = send(admin, method, f"/api/topics/{path}", {"action": "pause"})
            assert found == (200, {"message": f"WARNING: {missing}"}), path
        assert {one.verdict for one in AuditRow.objects.filter(phase="result")} == {"failed"}
        for path in ("none", "none/x", "bad%20name"):
            found = send(admin, "GET", f"/api/topics/{path}")
            assert found == (502, {"message": "UPSTREAM_ERROR: failed to query any nsqd: "}), path
        found = send(admin, "DELETE", f"/api/nodes/{a.address}", {"topic": "none"})
        assert found == (200, {"message": f"WARNING: {missing}"})
        # Its topics are those of this moment.
        a.topics["mail"] = topic("mail", channel("all"))
        nodes = {str(one["http_port"]): one["topics"] for one in send(admin, "GET", "/api/nodes")[1]["nodes"]}
        assert [one["topic"] for one in nodes[str(a.port)]] == ["mail", "orders"]


def test_a_silent_node_is_a_warning_and_all_of_them_an_error(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path, gone=True) as (_, a, b, _lookupd):
        status, document = send(admin, "GET", "/api/topics/orders")
        assert (status, document["message_count"], len(document["nodes"])) == (200, 40, 1)
        assert document["message"].startswith("WARNING: ")
        assert b.address in document["message"]
        a.failing = b.failing
        status, document = send(admin, "GET", "/api/topics/orders")
        assert status == 502
        assert document["message"].startswith("UPSTREAM_ERROR: failed to query any nsqd: ")


def test_a_silent_node_costs_no_warning_about_a_topic_that_it_does_not_have(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path, gone=True) as (console, a, b, lookupd):
        wait_for("the poller's failure", lambda: len(console.cluster.state.answering) == 1)
        a.topics["mail"] = topic("mail", channel("all", depth=3), message_count=3)
        lookupd.answer_as_lookupd(a, b, topics=("orders", "mail"))
        lookupd.answers["/nodes"]["producers"][1]["topics"] = ["orders"]
        for method, path in (
            ("GET", "/api/topics/mail"),
            ("GET", "/api/topics/mail/all"),
            ("POST", "/api/topics/mail/all"),
            ("DELETE", "/api/topics/mail"),
        ):
            status, document = send(admin, method, path, {"action": "pause"})
            assert (status, document["message"]) == (200, ""), path
        # The other nodes' silence does not keep the name at the nsqlookupds.
        assert lookupd.acts[-1].path == "/topic/delete"
        assert b.address in send(admin, "GET", "/api/topics/orders")[1]["message"]


def test_a_node_without_the_channel_and_a_silent_nsqlookupd_are_warnings(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path) as (console, a, b, lookupd):
        b.topics["orders"]["channels"].clear()
        missing = 'got response 404 Not Found "{\\"message\\":\\"CHANNEL_NOT_FOUND\\"}"'
        found = send(admin, "POST", "/api/topics/orders/billing", {"action": "pause"})
        assert found == (200, {"message": f"WARNING: {missing}"})
        assert a.channel("orders", "billing")["paused"]
        assert AuditRow.objects.get(phase="result").verdict == "done"
        lookupd.failing = (500, {}, b"{}")
        wait_for("the poller's failure", lambda: console.cluster.state.lookupds[0].answers.failures)
        for method, path in (("GET", "/api/topics/orders"), ("GET", "/api/counter"), ("POST", "/api/topics/orders")):
            status, document = send(admin, method, path, {"action": "pause"})
            assert (status, document["message"].startswith("WARNING: ")) == (200, True), path
            assert lookupd.address in document["message"]
        assert a.topics["orders"]["paused"]


def test_an_act_with_a_fault_has_its_end_in_the_audit_list(
    admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("Session is closed")

    with cluster(tmp_path):
        monkeypatch.setattr(ClusterNow, "figures", fail)
        status, document = send(admin, "POST", "/api/topics/orders/billing", {"action": "pause"})
        assert (status, "may have been done" in document["message"]) == (502, True)
        (row,) = AuditRow.objects.filter(phase="result")
        assert (row.action, row.verdict) == ("pause_channel", "unknown")


def test_acts_go_to_all_nodes_and_are_audited_with_each_ones_outcome(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, a, b, lookupd):
        done = (200, {"message": ""})
        assert send(admin, "POST", "/api/topics/orders/billing", {"action": "pause"}) == done
        assert [one.channel("orders", "billing")["paused"] for one in (a, b)] == [True, True]
        (row,) = AuditRow.objects.filter(phase="result")
        assert (row.action, row.actor, row.verdict) == ("pause_channel", "ada", "done")
        assert row.detail == "; ".join(f"{one} done" for one in sorted((a.address, b.address)))
        assert send(admin, "POST", "/api/topics/orders/billing", {"action": "empty"}) == done
        assert (a.channel("orders", "billing")["depth"], b.channel("orders", "billing")["depth"]) == (0, 0)
        assert send(admin, "POST", "/api/topics", {"topic": "orders", "channel": "mail"}) == done
        names = [[each["channel_name"] for each in one.topics["orders"]["channels"]] for one in (a, b)]
        assert names == [["billing", "mail"]] * 2
        assert [one.path for one in lookupd.acts] == ["/channel/create"]
        assert send(admin, "DELETE", "/api/topics/orders/mail") == done
        assert [one["channel_name"] for one in a.topics["orders"]["channels"]] == ["billing"]
        b.failing = (500, {}, b"{}")
        status, document = send(admin, "POST", "/api/topics/orders", {"action": "pause"})
        assert status == 200
        assert document["message"].startswith("WARNING: ")
        assert b.address in document["message"]
        assert a.topics["orders"]["paused"]


def test_a_tombstone_deletes_the_topic_on_its_node_alone(admin: Client, tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, a, b, lookupd):
        assert send(admin, "DELETE", f"/api/nodes/{b.address}", {"topic": "orders"}) == (200, {"message": ""})
        assert [(one.path, one.query["node"]) for one in lookupd.acts] == [("/topic/tombstone", b.address)]
        assert list(a.topics) == ["orders"]
        assert not b.topics
        missing = 'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"'
        found = send(admin, "DELETE", f"/api/nodes/{b.address}", {"topic": "other"})
        assert found == (200, {"message": f"WARNING: {missing}"})
        status, document = send(admin, "DELETE", "/api/nodes/nowhere:4151", {"topic": "orders"})
        sentence = "UPSTREAM_ERROR: failed to query any nsqd: nowhere:4151 is no node of this cluster"
        assert (status, document) == (502, {"message": sentence})


def test_an_admin_reads_and_changes_options_from_an_allowed_address(
    admin: Client, with_options: Any, tmp_path: Path
) -> None:
    with_options(config_from=(ipaddress.ip_network("127.0.0.0/8"),))
    with cluster(tmp_path) as (console, _, b, lookupd), FakeNode() as other:
        other.answer_as_lookupd(b, topics=("orders",))
        path = "/config/nsqlookupd_http_addresses"
        assert send(admin, "GET", path) == (200, [lookupd.address])
        assert send(admin, "GET", "/config/log_level")[1] in range(1, 6)
        assert send(admin, "GET", "/config/http_client_connect_timeout") == (200, 2_000_000_000)
        assert send(admin, "GET", "/config/http_client_tls_insecure_skip_verify") == (200, False)
        assert send(admin, "GET", "/config/proxy_graphite") == (200, False)
        assert admin.get("/config/graphite_url").content == b""
        for name in CONFIG_TEXTS:
            answer = admin.get(f"/config/{name}")
            assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8"), name
        assert admin.put(path, [other.address], content_type="application/json").json() == [other.address]
        console.see_topic("orders", 1)
        assert [str(one) for one in console.cluster.state.addresses.lookupds] == [other.address]
        assert AuditRow.objects.get(phase="result").message == f"Changed the addresses over {path}."
        for value in (b"nonsense", b'"a:1"', b""):
            assert admin.generic("PUT", path, value).json() == {"message": "INVALID_VALUE"}
        assert send(admin, "GET", "/config/none") == (400, {"message": "INVALID_OPTION"})
        assert send(admin, "PUT", "/config/none", {}) == (400, {"message": "INVALID_OPTION"})
        viewer = client_of(make_user("eve", role=Role.OPERATOR))
        assert viewer.put(path, [], content_type="application/json").status_code == 403
        with_options(config_from=(ipaddress.ip_network("10.0.0.0/8"),))
        assert send(admin, "GET", path) == (403, {"message": "FORBIDDEN"})


MANY = b'["%b"]' % b'","'.join(b"a:%d" % number for number in range(1, 65_536))
HOSTILE = {
    "an endless list": b"[" * 10_000,
    "nested objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "no UTF-8": b'["\xff\xfe:1"]',
    "half of a pair": b'["\\ud800:1"]',
    "numbers": b"[1, 1e400, -0]",
    "a great number": b"9" * 5_000,
    "null": b"null",
    "objects": b'[{"topic": 1}]',
    "no end": b'["a:1"',
    "zeros": b"\x00" * 1000,
    "no text": b'{"topic": ["a"], "channel": {}, "action": 1}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_no_body_costs_more_than_a_complaint(admin: Client, tmp_path: Path, body: bytes) -> None:
    with cluster(tmp_path) as (console, a, b, lookupd):
        for method, path in (
            ("PUT", "/config/nsqlookupd_http_addresses"),
            ("PUT", "/config/log_level"),
            ("POST", "/api/topics"),
            ("POST", "/api/topics/orders"),
            ("POST", "/api/topics/orders/billing"),
            ("DELETE", f"/api/nodes/{a.address}"),
        ):
            answer = admin.generic(method, path, body, content_type="application/json")
            assert (answer.status_code, list(answer.json())) == (400, ["message"]), path
            assert len(answer.content) < 500
        assert (a.acts, b.acts, lookupd.acts) == ([], [], [])
        assert [str(one) for one in console.cluster.addresses.lookupds] == [lookupd.address]


def test_a_body_beyond_the_limits_is_refused_with_them(admin: Client, tmp_path: Path) -> None:
    path = "/config/nsqlookupd_http_addresses"

    def refused(body: bytes, method: str = "PUT", path: str = path) -> tuple[int, str]:
        answer = admin.generic(method, path, body, content_type="application/json")
        return answer.status_code, answer.json()["message"]

    with cluster(tmp_path) as (console, _, _b, lookupd):
        assert refused(MANY) == (400, "INVALID_VALUE: 65,535 addresses: the most is 1,000")
        wrong = "INVALID_VALUE: 'b:0' has the port 0: a port is 1 to 65535, and 1 more"
        assert refused(b'["a:1", "b:0", "c"]') == (400, wrong)
        large = b'["%b"]' % (b"a" * (1 << 20))
        most = "the body has 1,048,580 bytes, and the most is 1,048,576; nothing was done"
        assert refused(large) == (413, f"INVALID_VALUE: {most}")
        most = "the body has 1,048,580 bytes, and the most is 16,384; nothing was done"
        assert refused(large, "POST", "/api/topics") == (413, f"INVALID_REQUEST: {most}")
        largest = "The request has 8,388,609 bytes, and the console reads 8,388,608 at most. Nothing was done."
        assert refused(b" " * ((8 << 20) + 1)) == (413, largest)
        assert [str(one) for one in console.cluster.addresses.lookupds] == [lookupd.address]


def test_strangers_get_nothing_and_viewers_only_read(tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, a, *_rest):
        for method, path in (("GET", "/api/topics"), ("POST", "/api/topics/orders")):
            status, document = send(Client(), method, path, {"action": "pause"})
            assert (status, "--allow-api-from-cidr" in document["message"]) == (401, True)
            assert "`penstock token create`" in document["message"], "with --console-only there is no page for it"
        viewer = client_of(make_user(role=Role.VIEWER))
        assert send(viewer, "GET", "/api/topics")[0] == 200
        refused = send(viewer, "POST", "/api/topics/orders", {"action": "pause"})
        assert refused == (403, {"message": "FORBIDDEN"})
        assert not a.topics["orders"]["paused"]
        assert AuditRow.objects.get(phase="refused").action == "pause_topic"
        # Pages of other sites can't act in a session's name.
        careful = client_of(make_user("eve"), enforce_csrf_checks=True)
        assert send(careful, "POST", "/api/topics/orders", {"action": "pause"})[0] == 403
        assert not a.topics["orders"]["paused"]


def test_a_token_may_what_its_permissions_say(tmp_path: Path) -> None:
    settings_path = settings.DATA_PATH
    settings.DATA_PATH = tmp_path
    try:
        with cluster(tmp_path) as (_, a, *_rest):
            _, full = TokenFile(tmp_path).create(
                "deploys", ["administer"], ["orders"], expires_ms=0, by="ada", now_ms=1
            )
            _, reading = TokenFile(tmp_path).create("graphs", ["consume"], ["*"], expires_ms=0, by="ada", now_ms=1)
            as_full, as_reading = ({"Authorization": f"Bearer {secret}"} for secret in (full, reading))
            assert send(Client(), "GET", "/api/topics/orders", **as_full)[0] == 200
            assert send(Client(), "GET", "/api/topics/empty", **as_full) == (403, {"message": "FORBIDDEN"})
            assert send(Client(), "GET", "/api/topics", **as_full) == (403, {"message": "FORBIDDEN"})
            assert send(Client(), "GET", "/api/topics", **as_reading)[0] == 200
            # Options are of the whole cluster.
            for given in (as_full, as_reading):
                assert send(Client(), "GET", "/config/log_level", **given) == (403, {"message": "FORBIDDEN"})
            act = {"action": "pause"}
            refused = send(Client(), "POST", "/api/topics/orders", act, **as_reading)
            assert refused == (403, {"message": "FORBIDDEN"})
            assert send(Client(), "POST", "/api/topics/orders", act, **as_full) == (200, {"message": ""})
            assert a.topics["orders"]["paused"]
            assert AuditRow.objects.get(phase="result").actor == "deploys"
            other = full[:-1] + ("1" if full.endswith("0") else "0")
            assert send(Client(), "GET", "/api/topics", Authorization=f"Bearer {other}")[0] == 401
    finally:
        settings.DATA_PATH = settings_path


@pytest.fixture
def with_options(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(**fields: Any) -> None:
        options = NsqadminOptions(**fields)
        monkeypatch.setattr(settings, "CONSOLE", replace(settings.CONSOLE, nsqadmin=options))

    return use


def test_programs_at_listed_addresses_need_nothing(with_options: Any, tmp_path: Path) -> None:
    with cluster(tmp_path) as (_, a, *_rest):
        with_options(api_from=(ipaddress.ip_network("10.0.0.0/8"),))
        assert send(Client(), "GET", "/api/topics")[0] == 401
        with_options(api_from=(ipaddress.ip_network("127.0.0.0/8"),))
        assert send(Client(), "GET", "/api/topics")[0] == 200
        # A browser at such an address does not act for a page of another site.
        act = {"action": "pause"}
        for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example.org"}):
            refused = send(Client(), "POST", "/api/topics/orders", act, **headers)
            assert refused == (403, {"message": "FORBIDDEN"})
        assert not a.topics["orders"]["paused"]
        assert send(Client(enforce_csrf_checks=True), "POST", "/api/topics/orders", act) == (200, {"message": ""})
        assert AuditRow.objects.get(phase="result").actor == "nsqadmin-api"
        # Pages need a log-in all the same.
        assert Client().get("/topics/").status_code == 302


def test_the_header_of_a_proxy_names_users_and_a_list_their_admins(with_options: Any, tmp_path: Path) -> None:
    with cluster(tmp_path):
        act = {"action": "pause"}
        with_options(acl_header="X-Forwarded-User", admin_users=frozenset({"grace"}))
        assert send(Client(), "GET", "/api/topics")[0] == 401
        assert send(Client(), "GET", "/api/topics", **{"X-Forwarded-User": "ada"})[0] == 200
        assert send(Client(), "POST", "/api/topics/orders", act, **{"X-Forwarded-User": "ada"})[0] == 403
        assert send(Client(), "POST", "/api/topics/orders", act, **{"X-Forwarded-User": "grace"})[0] == 200
        assert AuditRow.objects.get(phase="result").actor == "grace"
