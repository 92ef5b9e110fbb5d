"""What nsqd does to a data directory while it runs: a real one where NSQD names it, else its files as nsqd writes them.

An act is (what, place): create, delete, pause, unpause a place, a topic or TOPIC/CHANNEL; or publish to a topic.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from tests.conformance.server import NSQD, NsqServer, real_process
from tests.support.nsqd_directory import messages, read_metadata, write_metadata, write_queue
from tests.support.waiting import wait_for

Act = tuple[str, str]
_generations = count(1)
_messages = count(1)


@dataclass(slots=True)
class Place:
    """A topic or channel. generation: another one of the same name has another. waiting: bodies."""

    paused: bool = False
    generation: int = field(default_factory=lambda: next(_generations))
    waiting: list[bytes] = field(default_factory=list)
    channels: dict[str, "Place"] = field(default_factory=dict)

    def copy(self) -> "Place":
        channels = {name: channel.copy() for name, channel in self.channels.items()}
        return replace(self, waiting=[*self.waiting], channels=channels)

    @property
    def shown(self) -> object:
        """What nsqd.dat has of it."""
        return self.paused, {name: channel.paused for name, channel in self.channels.items()}


Places = dict[str, Place]


def copied(places: Places) -> Places:
    return {name: place.copy() for name, place in places.items()}


def act_on(places: Places, act: Act) -> bool:
    """Do the act; False when a server refuses it, or it changes nothing."""
    what, path = act
    topic_name, _, name = path.partition("/")
    home = places if not name else places[topic_name].channels if topic_name in places else None
    name = name or topic_name
    if home is None or (what == "create") == (name in home):
        return False
    if what == "create":
        home[name] = Place()
    elif what == "delete":
        del home[name]
    elif what == "publish":
        home[name].waiting.append(b"m%d" % next(_messages))
    elif home[name].paused == (what == "pause"):
        return False
    else:
        home[name].paused = what == "pause"
    topic = places.get(topic_name)
    if topic is not None and topic.channels and not topic.paused:
        for channel in topic.channels.values():
            channel.waiting += topic.waiting
        topic.waiting = []
    return True


def nsqd_runs(directory: Path, acts: Sequence[Act]) -> Places:
    """Start nsqd on the directory, do the acts, and stop it; what it has then."""
    topics, paused = read_metadata(directory)
    places = {
        name: Place(name in paused, channels={one: Place(f"{name}/{one}" in paused) for one in channels})
        for name, channels in topics.items()
    }
    with _real(directory) if NSQD else _written(directory, places) as do:
        for act in acts:
            if act_on(places, act):
                do(act, places)
    return places


@contextmanager
def _written(directory: Path, places: Places) -> Iterator[object]:
    def do(act: Act, _: Places) -> None:
        what, path = act
        if what == "delete":
            queue = path.replace("/", ":")
            starts = (f"{queue}.diskqueue.", *(() if "/" in path else (f"{queue}:",)))
            for file in [file for file in directory.iterdir() if file.name.startswith(starts)]:
                file.unlink()

    yield do
    names = {f"{topic}/{one}": channel for topic, place in places.items() for one, channel in place.channels.items()}
    write_metadata(
        directory,
        {name: list(place.channels) for name, place in places.items()},
        paused=[name for name, place in [*places.items(), *names.items()] if place.paused],
    )
    for name, place in [*places.items(), *names.items()]:
        # An empty queue has a meta file, too.
        stored = [
            replace(one, body=body) for one, body in zip(messages(len(place.waiting)), place.waiting, strict=True)
        ]
        write_queue(directory, name.replace("/", ":"), [stored])
        if not stored:
            (directory / f"{name.replace('/', ':')}.diskqueue.000000.dat").unlink()


@contextmanager
def _real(directory: Path) -> Iterator[object]:
    """The directory's nsqd.dat must be nsqd's or ours; nsqd keeps its other files out of the way."""
    assert shutil.which(NSQD), f"NSQD is {NSQD!r}, which is no program"
    places = {"tcp-address": "127.0.0.1:0", "http-address": "127.0.0.1:0", "data-path": str(directory)}
    with real_process(NSQD, places) as (tcp_port, http_port):
        server = NsqServer(tcp_port, http_port)

        def do(act: Act, places: Places) -> None:
            what, path = act
            topic, _, channel = path.partition("/")
            if what == "publish":
                body = (places[topic].waiting or next(iter(places[topic].channels.values())).waiting)[-1]
                assert server.http("POST", f"/pub?topic={topic}", body).status == 200
            else:
                kind, query = (
                    ("channel", f"topic={topic}&channel={channel}") if channel else ("topic", f"topic={topic}")
                )
                assert server.http("POST", f"/{kind}/{what}?{query}").status == 200
            if topic in places:
                wait_for("the messages to be where they belong", lambda: depths(server, topic) == wanted(places[topic]))

        yield do


def depths(server: NsqServer, topic: str) -> object:
    (found,) = server.http("GET", f"/stats?format=json&topic={topic}").json["topics"]
    return found["depth"], {one["channel_name"]: one["depth"] for one in found["channels"]}


def wanted(place: Place) -> object:
    return len(place.waiting), {name: len(channel.waiting) for name, channel in place.channels.items()}
