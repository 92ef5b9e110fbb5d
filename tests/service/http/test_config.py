"""/config/OPTION: reading and changing options of a running server, as nsqd answers it."""

import logging
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from queue_engine.engine.running_config import addresses_setting
from queue_engine.vocabulary.options.options import Options
from tests.service.http.server import Server, http_server

ADDRESSES = "/config/nsqlookupd_tcp_addresses"
LEVEL = "/config/log_level"


@pytest.fixture(autouse=True)
def level_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


async def test_the_log_level_is_changed_at_once_and_answered_as_nsqds_number(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        assert (await server.request("GET", LEVEL)).json == 2
        for word, number, level in (
            ("debug", 1, logging.DEBUG),
            ("INFO", 2, logging.INFO),
            ("warn", 3, logging.WARNING),
            ("warning", 3, logging.WARNING),
            ("error", 4, logging.ERROR),
            ("fatal", 5, logging.CRITICAL),
        ):
            server.acts.clear()
            answer = await server.request("PUT", LEVEL, word.encode())
            assert (answer.status, answer.json) == (200, number), word
            assert answer.headers[b"x-nsq-content-type"] == b"nsq; version=1.0"
            assert logging.getLogger().level == level, word
            assert (await server.request("GET", LEVEL)).json == number, word
            assert [(act.action, act.error, dict(act.details)) for act in server.acts] == [
                ("change_option", "", {"option": "log_level", "value": word})
            ]


def _offer_addresses(server: Server) -> list[tuple[str, ...]]:
    """Takes the place of the lookup client: what it was given, the newest last."""
    given: list[tuple[str, ...]] = [()]
    server.engine.config.offer("nsqlookupd_tcp_addresses", addresses_setting(lambda: given[-1], given.append))
    return given


async def test_lookup_addresses_are_changed_by_a_list_in_json(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        given = _offer_addresses(server)
        assert (await server.request("GET", ADDRESSES)).body == b"[]"
        wanted = ["lookup-1:4160", "[::1]:4160", "127.0.0.1:4160", "lookup-1:4160"]
        answer = await server.request("PUT", ADDRESSES, orjson.dumps(wanted))
        assert answer.body == b'["lookup-1:4160","[::1]:4160","127.0.0.1:4160"]'
        assert (await server.request("GET", ADDRESSES)).body == answer.body
        assert given[1:] == [("lookup-1:4160", "[::1]:4160", "127.0.0.1:4160")]


async def test_lookup_addresses_of_another_form_change_nothing(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        given = _offer_addresses(server)
        for body, detail in (
            (b"lookup-1:4160", "the body is no JSON"),
            (b'"lookup-1:4160"', "the body is no list of texts"),
            (b"[4160]", "the body is no list of texts"),
            (b'["lookup-1"]', "'lookup-1' is not HOST:PORT"),
            (b'["lookup-1:99999"]', "'lookup-1:99999' is not HOST:PORT"),
            (b"\xff\xfe", "the body is no JSON"),
        ):
            answer = await server.request("PUT", ADDRESSES, body)
            assert (answer.status, answer.message) == (400, "INVALID_VALUE"), body
            assert given == [()], body
            assert detail in server.acts[-1].error


async def test_each_option_is_answered_by_nsqds_name_and_in_its_units(tmp_path: Path) -> None:
    async with http_server(tmp_path, allowed_host=("a.example", "b.example")) as server:
        for name, value in (
            ("max_rdy_count", 2_500),
            ("msg_timeout", 60_000_000_000),
            ("sync", "always"),
            ("tcp_address", "127.0.0.1:4150"),
            ("requeue_on_disconnect", True),
            ("allowed_host", ["a.example", "b.example"]),
        ):
            answer = await server.request("GET", f"/config/{name}")
            assert answer.status == 200, name
            assert (answer.body.decode() if isinstance(value, str) else answer.json) == value, name


async def test_what_is_no_option_and_what_is_secret_is_not_answered(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token="s3cret") as server:
        for name in ("colour", "msg_timeout_ms", "http_token", "__class__", "max-rdy-count", "x" * 5_000):
            for method, body in (("GET", b""), ("PUT", b"1")):
                answer = await server.request(method, f"/config/{name}", body, server.token_header)
                assert (answer.status, answer.message) == (400, "INVALID_OPTION"), name
                assert b"s3cret" not in answer.body
                assert len(answer.body) < 300


async def test_other_paths_are_none(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        for path in ("/config", "/config/", "/config/a/b"):
            answer = await server.request("GET", path)
            assert (answer.status, answer.message) == (404, "NOT_FOUND"), path


async def test_with_a_token_both_reading_and_changing_need_it_and_refused_changes_are_audited(tmp_path: Path) -> None:
    async with http_server(tmp_path, http_token="s3cret") as server:
        for method in ("GET", "PUT"):
            answer = await server.request(method, LEVEL, b"debug")
            assert (answer.status, answer.message) == (403, "TOKEN_REQUIRED")
        assert [act.action for act in server.acts] == ["change_option"]
        assert logging.getLogger().level == logging.INFO
        assert (await server.request("PUT", LEVEL, b"debug", server.token_header)).status == 200


def test_no_option_with_a_secret_is_named_in_another_way() -> None:
    """`RunningConfig` knows a secret by its name."""
    names = {name for name in Options.__dataclass_fields__ if any(word in name for word in ("token", "secret", "pass"))}
    assert names == {"http_token", "http_token_file"}
