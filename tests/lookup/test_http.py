"""nsqlookupd's HTTP API: codes, statuses and headers."""

import pytest

from tests.support.lookup import Lookup


@pytest.fixture
def lookup() -> Lookup:
    return Lookup()


def test_an_error_has_its_status_and_code_and_changes_nothing(lookup: Lookup) -> None:
    for method, target, status, code in (
        ("GET", "/channels", 400, "MISSING_ARG_TOPIC"),
        ("GET", "/lookup", 400, "MISSING_ARG_TOPIC"),
        ("GET", "/lookup?topic=%zz", 400, "INVALID_REQUEST"),
        ("GET", "/lookup?topic=a;b", 400, "INVALID_REQUEST"),
        ("GET", "/lookup?topic=nope", 404, "TOPIC_NOT_FOUND"),
        ("POST", "/topic/create", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/create?topic=a%24", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/topic/create?topic=", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/topic/delete", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/tombstone", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/topic/tombstone?topic=a", 400, "MISSING_ARG_NODE"),
        ("POST", "/channel/create", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/channel/create?topic=a$", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/channel/create?topic=a", 400, "MISSING_ARG_CHANNEL"),
        ("POST", "/channel/create?topic=a&channel=b$", 400, "INVALID_ARG_CHANNEL"),
        ("POST", "/channel/delete", 400, "MISSING_ARG_TOPIC"),
        ("POST", "/channel/delete?topic=a$", 400, "INVALID_ARG_TOPIC"),
        ("POST", "/channel/delete?topic=a", 400, "MISSING_ARG_CHANNEL"),
        ("POST", "/channel/delete?topic=a&channel=b$", 400, "INVALID_ARG_CHANNEL"),
        ("POST", "/channel/delete?topic=a&channel=b", 404, "CHANNEL_NOT_FOUND"),
        ("GET", "/nothing", 404, "NOT_FOUND"),
        ("POST", "/nodes", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/topic/create?topic=a", 405, "METHOD_NOT_ALLOWED"),
    ):
        assert lookup.error(method, target) == (status, code), target
        assert lookup.get("/topics") == {"topics": []}, target


def test_ping_and_info(lookup: Lookup) -> None:
    ping = lookup.response("GET", "/ping")
    assert (ping.status, ping.body, ping.nsq_version) == (200, b"OK", False)
    assert list(lookup.get("/info")) == ["version"]
    assert lookup.response("GET", "/info").nsq_version


def test_tombstoning_a_node_that_is_not_there_is_no_error(lookup: Lookup) -> None:
    lookup.post("/topic/tombstone?topic=a&node=nobody:1")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_web_page_of_another_origin_is_refused(lookup: Lookup, headers: dict[str, str]) -> None:
    assert lookup.response("POST", "/topic/create?topic=a", headers).status == 403
    assert lookup.get("/topics") == {"topics": []}


def test_a_page_of_its_own_and_any_name_of_the_server_are_served(lookup: Lookup) -> None:
    own = {"Origin": "http://lookup:4161", "Sec-Fetch-Site": "same-origin"}
    assert lookup.response("GET", "/topics", own).status == 200
