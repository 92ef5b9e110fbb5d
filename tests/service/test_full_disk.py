"""A full disk: what HTTP, TCP and the log of the process say is the same sentence, with the path and what helps."""

import errno
import os
import struct
from http.client import HTTPConnection
from pathlib import Path

import pytest

from queue_engine.storage.disk.files import Files
from tests.support.nsq_socket import FRAME_ERROR
from tests.support.processes.running_engine import RunningEngine

GOES_ON = "Finishing, emptying and deleting go on; publishing goes on by itself once there is room"


@pytest.mark.parametrize(("path", "body"), [("/pub?topic=t", b"m"), ("/mpub?topic=t", b"m\nn")])
def test_http_says_what_tcp_says_and_the_log_names_path_and_remedy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    storage_kind: str,
    path: str,
    body: bytes,
) -> None:
    write_at = Files.write_at

    def full(self: Files, fd: int, data: bytes | memoryview, position: int) -> int:
        name = os.readlink(f"/proc/self/fd/{fd}")
        if ".diskqueue." in name or "/segments/" in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write_at(self, fd, data, position)

    with RunningEngine(tmp_path, mem_queue_size=0) as server:
        server.http("POST", "/topic/create?topic=t")
        monkeypatch.setattr(Files, "write_at", full)
        server.client().send(
            b"PUB t\n" + struct.pack(">i", 1) + b"m"
        )  # the log has a trial of its own behind the first
        with server.client() as client:
            client.send(b"PUB t\n" + struct.pack(">i", 1) + b"m")
            frame_type, said = client.read_frame()
        assert frame_type == FRAME_ERROR
        connection = HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        connection.request("POST", path, body)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (503, b'{"message":"STORAGE_REFUSED"}')
        connection.close()
        monkeypatch.setattr(Files, "write_at", write_at)
    detail = answer.headers["X-Penstock-Detail"]
    sentence = said.decode().removeprefix("E_PUB_FAILED PUB failed ")
    if storage_kind == "diskqueue":  # how much did not fit depends on the request
        detail, sentence = detail.partition(" to ")[2], sentence.partition(" to ")[2]
    assert detail == sentence
    assert GOES_ON in sentence
    (line,) = (one.getMessage() for one in caplog.records if "for want of room" in one.getMessage())
    assert GOES_ON in line
    assert str(tmp_path) in line
