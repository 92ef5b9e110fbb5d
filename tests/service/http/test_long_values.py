"""A value of five thousand characters is not sent back whole: not in an answer, and not to the audit list."""

from pathlib import Path

import pytest

from queue_engine.service.http.reference.endpoints import ENDPOINTS
from queue_engine.service.http.refusals import Refusal
from queue_engine.service.http.rules import PATHS
from tests.service.http.good_requests import GoodRequests
from tests.service.http.server import http_server

# One word, many words, many of several bytes.
LONG = ("x" * 5_000, "many words " * 450, "ü " * 2_500)
ANSWER_BYTES_MAX = 2_000  # 400 characters of the sentence, percent-encoded; twice on a path of our own


async def test_no_path_sends_a_long_value_back_whole(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        server.engine.acts.create_topic("orders")
        server.engine.acts.create_channel("orders", "billing")
        good = GoodRequests(server, "")
        names = [(path, one.name) for path, endpoint in ENDPOINTS.items() for one in endpoint.parameters]
        assert len(names) > 100
        refused = 0
        for path, name in names:
            for value in LONG:
                answer = await server.request(
                    PATHS[path].methods[-1], good.target(path, **{name: value}), b"x" if "pub" in path else b""
                )
                if answer.status >= 400:
                    refused += 1
                    told = answer.body + b"".join(answer.headers.values())
                    assert len(told) <= ANSWER_BYTES_MAX, (path, name, told[:300])
        assert refused > 200
        for act in server.acts:
            assert len(act.error) + len(act.topic) + len(act.channel) <= 800, act.action


@pytest.mark.parametrize("value", LONG)
def test_what_stands_behind_a_long_value_is_still_told(value: str) -> None:
    refusal = Refusal(400, "INVALID_REQUEST", f"limit={value} is no whole number from 0 to 100")
    assert refusal.detail.startswith(f"limit={value[:60]}")
    assert "…" in refusal.detail
    assert refusal.detail.endswith(" is no whole number from 0 to 100")
    assert len(refusal.detail) <= 400
