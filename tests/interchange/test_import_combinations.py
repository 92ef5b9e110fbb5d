"""`import_nsqd`: every combination of empty, paused and absent channels, against a model; refused anywhere, too."""

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.daemon.nsqd_import.import_client import ImportClient
from queue_engine.daemon.nsqd_import.nsqd_import import NsqdImport
from queue_engine.vocabulary.errors import EngineRefusedError
from tests.support.nsq_socket import NsqSocket
from tests.support.nsqd_directory import messages, write_metadata, write_queue
from tests.support.processes.running_engine import RunningEngine

HELD = messages(6)
# What a channel's queue has of these: without files, with files that are read to their end, with all, with some.
ABSENT, EMPTY = None, ()
CONTENTS = (ABSENT, EMPTY, (0, 1, 2, 3, 4, 5), (3, 4, 5), (1, 4))
NOT_THERE, THERE, PAUSED_THERE = range(3)
run_numbers = itertools.count()


@dataclass(frozen=True)
class Channel:
    """content: indexes of HELD. is_paused: in nsqd. on_server: before the import."""

    content: tuple[int, ...] | None
    is_paused: bool
    on_server: int


@dataclass(frozen=True)
class Topic:
    """content: of what it has not passed on, one of CONTENTS."""

    channels: tuple[Channel, ...]
    content: tuple[int, ...] | None
    is_paused: bool


channels = st.builds(
    Channel, st.sampled_from(CONTENTS), st.booleans(), st.sampled_from((NOT_THERE, THERE, PAUSED_THERE))
)
topics = st.builds(Topic, st.lists(channels, max_size=3).map(tuple), st.sampled_from(CONTENTS), st.booleans())


class RefusingClient(ImportClient):
    """One request is refused, the first one is number 1."""

    def __init__(self, url: str, refused: int) -> None:
        super().__init__(url)
        self._left = refused

    def _ask(self, method: str, path: str, query: dict[str, Any], body: bytes | None = None) -> Any:
        self._left -= 1
        if self._left == 0:
            raise EngineRefusedError("refused on purpose", 507, "NO_ROOM")
        return super()._ask(method, path, query, body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    with RunningEngine(tmp_path_factory.mktemp("log") / "data", storage="log") as running:
        yield running


def prepare(directory: Path, server: RunningEngine, named: dict[str, Topic]) -> None:
    """Write nsqd's directory, and make what is on the server before."""
    paused = [name for name, topic in named.items() if topic.is_paused]
    for name, topic in named.items():
        write(directory, name, topic.content, first=100)
        for number, channel in enumerate(topic.channels):
            write(directory, f"{name}:c{number}", channel.content)
            if channel.is_paused:
                paused.append(f"{name}/c{number}")
            if channel.on_server != NOT_THERE:
                server.http("POST", f"/topic/create?topic={name}&storage=log")
                server.http("POST", f"/channel/create?topic={name}&channel=c{number}")
            if channel.on_server == PAUSED_THERE:
                server.http("POST", f"/channel/pause?topic={name}&channel=c{number}&reason=repair")
    write_metadata(
        directory, {name: [f"c{n}" for n, _ in enumerate(topic.channels)] for name, topic in named.items()}, paused
    )


def write(directory: Path, queue: str, content: tuple[int, ...] | None, first: int = 0) -> None:
    if content == EMPTY:
        write_queue(directory, queue, [HELD[:1]], read=1)
    elif content is not ABSENT:
        write_queue(directory, queue, [[messages(1, first=first + number)[0] for number in content]])


def joined(topic: Topic) -> list[int]:
    """The messages of the channels in the order of the log: the longest channel first, then what that one lacks."""
    order: list[int] = []
    for _, channel in sorted(enumerate(topic.channels), key=lambda one: (-len(one[1].content or ()), one[0])):
        order += [number for number in channel.content or () if number not in order]
    return order


def check(server: RunningEngine, name: str, topic: Topic) -> None:
    """The topic on the server is what the model says."""
    passed_on = [f"m{100 + number}".encode() for number in topic.content or ()]
    found = server.topic_stats(name)
    assert found["paused"] == topic.is_paused
    there = {one["channel_name"]: one for one in found["channels"]}
    assert sorted(there) == [f"c{number}" for number, _ in enumerate(topic.channels)]
    if topic.is_paused or not topic.channels:
        assert found["depth"] == len(passed_on)
        passed_on = []
    for number, channel in enumerate(topic.channels):
        one = there[f"c{number}"]
        assert one["paused"] == (channel.is_paused or channel.on_server == PAUSED_THERE)
        has = [b"m%d" % place for place in joined(topic) if place in (channel.content or ())] + passed_on
        assert (one["depth"], one["in_flight_count"], one["deferred_count"]) == (len(has), 0, 0)
        server.http("POST", f"/channel/unpause?topic={name}&channel=c{number}")
        with NsqSocket(server.tcp_port) as client:
            client.subscribe(name, f"c{number}", rdy=100)
            assert [client.read_message().body for _ in has] == has


def run(directory: Path, client: ImportClient) -> tuple[bool, list[str]]:
    lines: list[str] = []
    with client, NsqdImport(str(directory), client, lines.append) as nsqd_import:
        return nsqd_import.run(), lines


@settings(max_examples=25)
@given(st.lists(topics, min_size=1, max_size=3), st.integers(0, 30))
def test_every_combination_of_channels_is_imported_and_a_refusal_leaves_nothing_paused(
    server: RunningEngine, drawn: list[Topic], refused: int
) -> None:
    example = next(run_numbers)
    named = {f"t{example}-{number}": topic for number, topic in enumerate(drawn)}
    with tempfile.TemporaryDirectory() as path:
        directory = Path(path)
        prepare(directory, server, named)
        url = f"http://127.0.0.1:{server.http_port}"
        is_complete, lines = run(directory, RefusingClient(url, refused))
        if not is_complete:
            assert sum("is left as it is" in line for line in lines) == 1, lines
            for name, topic in named.items():
                for one in server.stats(name)["topics"] or ():
                    for found in one["channels"]:
                        channel = topic.channels[int(found["channel_name"][1:])]
                        may_be = channel.is_paused or channel.on_server == PAUSED_THERE
                        assert may_be or not found["paused"], (name, found["channel_name"], lines)
            # The refused topic alone has files left.
            left = {file.name.split(".")[0].split(":")[0] for file in directory.glob("*.diskqueue.*")}
            assert len(left) <= 1
            assert run(directory, ImportClient(url))[0]
        for name, topic in named.items():
            check(server, name, topic)
