"""Large answers of /metrics and /stats as gzip, for clients that accept it."""

import gzip
from pathlib import Path

import pytest

from tests.service.http.server import Answer, Server, http_server

PATHS = ["/metrics", "/stats", "/stats?format=json"]


async def many_topics(server: Server) -> None:
    for number in range(60):
        await server.request("POST", f"/topic/create?topic=topic-{number}")


def is_compressed(answer: Answer) -> bool:
    return answer.headers.get(b"content-encoding") == b"gzip"


@pytest.mark.parametrize("path", PATHS)
async def test_a_large_answer_is_compressed_for_a_client_that_accepts_it(tmp_path: Path, path: str) -> None:
    async with http_server(tmp_path) as server:
        await many_topics(server)
        plain = await server.request("GET", path)
        packed = await server.request("GET", path, headers={"Accept-Encoding": "deflate, gzip;q=0.8"})
    assert not is_compressed(plain)
    assert is_compressed(packed)
    assert packed.headers[b"vary"] == b"Accept-Encoding"
    assert packed.headers[b"content-type"] == plain.headers[b"content-type"]
    text = gzip.decompress(packed.body)
    assert text.count(b"topic-59") == plain.body.count(b"topic-59") > 0
    assert len(packed.body) < len(text) / 3


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("GZIP", True),
        ("*", True),
        ("*, gzip;q=0.0", False),
        (";", False),
    ],
)
async def test_what_the_client_accepts_decides(tmp_path: Path, accepted: str, expected: bool) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/metrics", headers={"Accept-Encoding": accepted})
    assert is_compressed(answer) is expected


async def test_a_short_answer_goes_as_it_is(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        answer = await server.request("GET", "/stats", headers={"Accept-Encoding": "gzip"})
    assert not is_compressed(answer)
    assert answer.body.startswith(b"nsqd v")
