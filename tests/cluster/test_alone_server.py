"""The console's data directory without an engine: samples of nodes, which the pipeline's worker reads over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from admin_console.cluster.samples.alone_server import AloneServer
from queue_engine.client.log_api.log_client import LogClient
from queue_engine.storage.disk.backup_files import INCOMPLETE_NAME
from queue_engine.vocabulary.errors import (
    DirectoryLockedError,
    EngineRefusedError,
    EngineUnreachableError,
    OffsetBeyondEndError,
    StorageError,
    TopicMissingError,
)
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.vocabulary.options.addresses import joined
from queue_engine.vocabulary.options.options import Options


def started(path: Path, **options: int) -> AloneServer:
    server = AloneServer(Options(data_path=str(path), **options))
    server.bind()
    server.start()
    return server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AloneServer]:
    one = started(tmp_path)
    yield one
    one.stop()


def client_of(server: AloneServer, token: str = "") -> LogClient:
    return LogClient(f"http://{joined(*server.worker_address)}", token or server.own_token)


def test_the_worker_reads_samples_as_from_an_engine(server: AloneServer) -> None:
    bodies = [b"sample %d" % number for number in range(5)]
    for body in bodies:
        server.samples.append(body)
    with client_of(server) as client:
        state = client.topic(SAMPLES_TOPIC, time_ms=0)
        assert (state.oldest_offset, state.end_offset, state.time_offset) == (0, 5, 0)
        assert state.ranges == ((0, 5),)
        page = client.records(SAMPLES_TOPIC, 3)
        assert (page.first_offset, page.next_offset, page.count) == (3, 5, 2)
        assert all(body in page.data for body in bodies[3:])
        assert bodies[2] not in page.data
        assert client.cursor_list() == ()
        assert client.server() == f"{state.id_base:016x}"
        with pytest.raises(OffsetBeyondEndError):
            client.records(SAMPLES_TOPIC, 6)
        with pytest.raises(TopicMissingError):
            client.topic("orders")
        with pytest.raises(EngineRefusedError) as refused:
            client.lease(SAMPLES_TOPIC, 0, ttl_ms=1_000)
        assert refused.value.code == "INVALID_TOPIC", "the worker then reads without a lease, as from an engine"
        with pytest.raises(EngineRefusedError, match="404 NOT_FOUND"):
            client.channels(SAMPLES_TOPIC)


def test_another_token_reads_nothing(server: AloneServer) -> None:
    server.samples.append(b"a sample")
    for token in ("guessed", "x" * len(server.own_token)):
        with client_of(server, token) as client, pytest.raises(EngineRefusedError, match="403 FORBIDDEN"):
            client.topic(SAMPLES_TOPIC)


def test_samples_outlive_a_restart_and_one_process_has_the_directory(tmp_path: Path) -> None:
    first = started(tmp_path)
    first.samples.append(b"before")
    with client_of(first) as client:
        name = client.server()
    with pytest.raises(DirectoryLockedError):
        started(tmp_path)
    first.stop()
    second = started(tmp_path)
    second.samples.append(b"after")
    with client_of(second) as client:
        data = client.records(SAMPLES_TOPIC, 0).data
        assert client.server() == name
    second.stop()
    assert data.index(b"before") < data.index(b"after")
    with client_of(second) as client, pytest.raises(EngineUnreachableError):
        client.topic(SAMPLES_TOPIC)


def test_without_an_interval_there_are_no_samples_and_no_files(tmp_path: Path) -> None:
    server = started(tmp_path, samples_interval_ms=0)
    with client_of(server) as client, pytest.raises(TopicMissingError):
        client.topic(SAMPLES_TOPIC)
    server.stop()
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_backup_is_not_begun_upon_and_is_free_again(tmp_path: Path) -> None:
    (tmp_path / INCOMPLETE_NAME).touch()
    with pytest.raises(StorageError, match="is a backup that was not finished"):
        started(tmp_path)
    (tmp_path / INCOMPLETE_NAME).unlink()
    started(tmp_path).stop()
