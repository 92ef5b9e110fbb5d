"""What pages are made of goes out compressed: over HTTP, and the updates over the socket."""

import gzip
import random
import zlib
from functools import cache

import pytest
from autobahn.exception import PayloadExceededError
from autobahn.websocket.compress import PerMessageDeflate, PerMessageDeflateOffer
from django.http import HttpResponse
from django.test import Client, RequestFactory

from admin_console.hub.hub import Hub
from admin_console.management.console_server import WEBSOCKET_BYTES_MAX, accept_deflate
from admin_console.rings.rings import SECONDS
from admin_console.screens.build import Request, build_screen
from admin_console.screens.topics import PAGE_ROWS
from admin_console.security.compression import CompressText
from admin_console.vocabulary.roles import Role
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

GZIP = {"Accept-Encoding": "gzip, deflate, br"}
UPDATE_BYTES_MAX = 8_000  # a second


@pytest.mark.django_db
def test_pages_and_styles_are_compressed_and_found_unchanged() -> None:
    client = Client(headers=GZIP)
    page = client.get("/login/")
    assert page["Content-Encoding"] == "gzip"
    assert b"Log in" in gzip.decompress(page.content)
    styles = client.get("/static/penstock.css")
    packed = b"".join(styles)
    assert styles["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in styles["Vary"]
    plain = Client().get("/static/penstock.css")
    assert gzip.decompress(packed) == b"".join(plain)
    assert not plain.has_header("Content-Encoding")
    again = client.get("/static/penstock.css", headers={"If-None-Match": styles["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("kind", "headers"),
    [
        ("text/html", {"Content-Disposition": "attachment"}),
        ("application/octet-stream", {}),
        ("text/plain", {}),
    ],
)
def test_downloads_go_out_as_they_are(rf: RequestFactory, kind: str, headers: dict[str, str]) -> None:
    answer = HttpResponse(b"a" * 5_000, content_type=kind, headers=headers)
    compress = CompressText(lambda _: answer)
    assert compress(rf.get("/", headers=GZIP)).content == b"a" * 5_000


@cache
def busy_update() -> bytes:
    """Of fifty topics whose figures all have changed each second for fifteen minutes, by chance."""
    hub, chance = Hub(), random.Random(50)
    counts = [[0, 0] for _ in range(PAGE_ROWS)]
    for index in range(SECONDS):
        topics = []
        for number, count in enumerate(counts):
            count[0] += chance.randrange(3_000)
            count[1] += chance.randrange(3_000)
            figures = {"depth": chance.randrange(100_000), "in_flight_count": chance.randrange(2_500)}
            one = channel(f"topic-{number}", "main", message_count=count[0], finish_count=count[1], **figures)
            topics.append(topic(f"topic-{number}", one, message_count=count[0]))
        hub.write(snapshot(*topics, second=START_S + index))
    return build_screen(Request("topics", Role.ADMIN), hub.live).update_json()


@pytest.mark.parametrize("offer", [{}, {"accept_max_window_bits": True}, {"request_max_window_bits": 12}])
def test_an_update_of_fifty_busy_rows_takes_eight_kilobytes(offer: dict[str, int]) -> None:
    update = busy_update()
    assert len(update) > 3 * UPDATE_BYTES_MAX, "else there is nothing to see"
    accepted = accept_deflate([PerMessageDeflateOffer(**offer)])
    assert accepted is not None
    socket = PerMessageDeflate.create_from_offer_accept(True, accepted)
    sizes = set()
    for _ in range(2):
        socket.start_compress_message()
        sizes.add(len(socket.compress_message_data(update) + socket.end_compress_message()))
    assert len(sizes) == 1, "each is complete in itself"
    assert max(sizes) <= UPDATE_BYTES_MAX, f"{len(update)} bytes became {sizes}"


def test_a_browser_that_offers_no_compression_gets_none() -> None:
    assert accept_deflate([]) is None


def test_what_a_browser_sends_is_inflated_up_to_the_limit_of_a_message() -> None:
    accepted = accept_deflate([PerMessageDeflateOffer()])
    assert accepted is not None
    socket = PerMessageDeflate.create_from_offer_accept(True, accepted)
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(bytes(WEBSOCKET_BYTES_MAX + 1)) + packer.flush(zlib.Z_SYNC_FLUSH)[:-4]
    assert len(packed) < WEBSOCKET_BYTES_MAX // 500
    socket.start_decompress_message()
    with pytest.raises(PayloadExceededError):
        socket.decompress_message_data(packed)
