"""Five nodes: this server, a penstock-queue, three nsqds of other versions. Acts go to all of them while nodes fail in
different ways; every figure on every page is compared with the sum of what was done."""

import asyncio
import os
import re
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from django.test import Client

from admin_console.audit.models import AuditRow, Phase
from admin_console.cluster.cluster import get_cluster
from admin_console.cluster.reading.nodes import ClusterState, Node
from admin_console.gateway.gateway import get_gateway
from admin_console.hub.hub import TOTAL, get_hub
from admin_console.live.broadcast import Broadcast
from admin_console.rings.rings import SECONDS
from admin_console.screens.build import Request
from admin_console.vocabulary.roles import Role
from tests.support.fake_node import Answer, FakeNode, producer
from tests.support.fake_nsqd import FakeNsqd, channel, client, topic
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.cluster_console import ClusterConsole, cluster_console
from tests.support.pages.console import client_of, make_user, words
from tests.support.processes.daemon_process import DaemonProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

BODY = b"0123456789"
PAUSE, EMPTY = "/topics/orders/billing/~pause/", "/topics/orders/mail/~empty/"
DIALOG = {"X-Fragment": "1"}
_CUT: Answer = (200, {"Content-Length": "100"}, b"")  # it goes away in the middle
JSON = {"Accept": "application/json"}
TIMEOUT_S = 15.0  # of a call; one node takes 4 s


@dataclass
class Counts:
    """Of a channel at a node, or of a topic itself: messages that are there, and those since its process started."""

    depth: int = 0
    in_flight: int = 0
    messages: int = 0
    finished: int = 0
    requeued: int = 0
    consumers: int = 0
    is_paused: bool = False

    def plus(self, other: "Counts") -> "Counts":
        return Counts(
            self.depth + other.depth,
            self.in_flight + other.in_flight,
            self.messages + other.messages,
            self.finished + other.finished,
            self.requeued + other.requeued,
            self.consumers + other.consumers,
            self.is_paused or other.is_paused,
        )


Key = tuple[str, str]


@dataclass
class At:
    """What was done at one node. publish, consume: do it there."""

    name: str
    publish_there: Callable[[str, int], None]
    consume_there: Callable[[str, str, int, int, int], None]
    counts: dict[Key, Counts] = field(default_factory=dict)

    def publish(self, name: str, count: int) -> None:
        self.publish_there(name, count)
        self.counts[name, ""].messages += count
        channels = [one for key, one in self.counts.items() if key[0] == name and key[1]]
        for one in channels:
            one.depth += count
            one.messages += count
        if not channels:
            self.counts[name, ""].depth += count

    def consume(self, name: str, of: str, *, finish: int = 0, requeue: int = 0, hold: int = 0) -> None:
        """By a consumer that stays."""
        self.consume_there(name, of, finish, requeue, hold)
        one = self.counts[name, of]
        one.consumers += 1
        one.finished += finish
        one.requeued += requeue
        one.in_flight += hold
        one.depth -= finish + hold

    def sum(self, name: str = "", of: str = "") -> Counts:
        """Of a topic with its channels, or of all; of one channel."""
        found = Counts()
        for (its_topic, its_channel), one in self.counts.items():
            if name in ("", its_topic) and of in ("", its_channel):
                # Messages of a topic: its channels have copies.
                found = found.plus(one if of or not its_channel else Counts(**{**vars(one), "messages": 0}))
        return found

    def names(self, name: str) -> list[str]:
        return sorted(of for its_topic, of in self.counts if its_topic == name and of)

    @property
    def topics(self) -> list[str]:
        return sorted({name for name, _ in self.counts})


class Pages:
    """What a person sees: of a page's HTML, of its update, of nsqadmin's interface."""

    def __init__(self, browser: Client) -> None:
        self._browser = browser

    def html(self, path: str) -> str:
        answer = self._browser.get(path)
        assert answer.status_code == 200, (path, answer.status_code)
        return str(answer.content.decode())

    def json(self, path: str) -> Any:
        return orjson.loads(self._browser.get(path).content)

    def seen(self, path: str, page: str, **fields: str) -> "Seen":
        """The page as it is painted first, which its update must repeat."""
        live = get_hub().live
        assert live is not None
        painted = Seen.of_html(self.html(path))
        request = Request(page, Role.ADMIN, **fields)
        update = Seen.of_update(asyncio.run(Broadcast(get_hub()).build_update(request, live)))
        assert painted.tables.keys() >= update.tables.keys(), path
        for name, rows in update.tables.items():
            if name in ("facts", "in_flight"):  # ages; messages of the moment, read anew for each
                continue
            assert _without_ages(painted.tables[name]) == _without_ages(rows), (path, name)
        rates = _RATES if page in ("nodes", "node") else ()  # renewed with each reading
        for stat, texts in update.stats.items():
            assert stat in rates or painted.stats[stat] == texts, path
        return painted


def _text(html: str) -> str:
    return re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", words(html.replace("<wbr>", "")))


def _wire(cell: Any) -> str:
    return _text(cell if isinstance(cell, str) else cell[0])


_RATES = ("published", "finished", "share")
_AGES = {"age", "held", "deadline", "read", "answered", "connected", "oldest", "state", "rate", "spark", *_RATES}
Rows = dict[str, dict[str, str]]


def _without_ages(rows: Rows) -> Rows:
    return {key: {name: text for name, text in cells.items() if name not in _AGES} for key, cells in rows.items()}


@dataclass
class Seen:
    """stats: the large value and the small words of each. tables: by name, key and column."""

    stats: dict[str, tuple[str, str]]
    tables: dict[str, Rows]
    text: str = ""

    @classmethod
    def of_html(cls, html: str) -> "Seen":
        stats = re.findall(
            r'data-stat="([^"]+)">.*?<dd class="value"[^>]*>(.*?)</dd>\s*<dd class="note[^>]*>(.*?)</dd>', html, re.S
        )
        tables: dict[str, Rows] = {}
        for name, body in re.findall(r'<table class="list" data-table="([^"]+)"(.*?)</table>', html, re.S):
            tables[name] = {
                unescape(key): {
                    column: _text(cell)
                    for column, cell in re.findall(r'data-cell="([^"]+)"[^>]*>(.*?)</td>', cells, re.S)
                }
                for key, cells in re.findall(r'<tr data-key="([^"]+)">(.*?)</tr>', body, re.S)
            }
        text = _text(html.partition("<main")[2])
        return cls({name: (_text(value), _text(note)) for name, value, note in stats}, tables, text)

    @classmethod
    def of_update(cls, update: bytes) -> "Seen":
        document = orjson.loads(update)
        tables = {
            name: {
                key: {column: _wire(cells[index]) for column, cells in table["columns"].items()}
                for index, key in enumerate(table["keys"])
            }
            for name, table in document["tables"].items()
        }
        return cls({name: (_wire(one[0]), _wire(one[1])) for name, one in document["stats"].items()}, tables)

    def figures(self, table: str, key: str, *columns: str) -> list[str]:
        return [self.tables[table][key][column] for column in columns]


class Five:
    """The cluster, what was done at each node, and what pages show of it."""

    def __init__(self, console: ClusterConsole, pages: Pages, nodes: Sequence[At]) -> None:
        self.console = console
        self.pages = pages
        self.nodes = {one.name: one for one in nodes}
        self.own = nodes[0]

    def sum(self, name: str = "", of: str = "", silent: Collection[str] = ()) -> Counts:
        found = Counts()
        for node in self.nodes.values():
            if node.name not in silent:
                found = found.plus(node.sum(name, of))
        return found

    def see(self, *silent: str) -> None:
        """Have the pages show what was done. silent: the nodes that do not answer."""
        cluster = get_cluster()
        assert cluster is not None

        differs: list[str] = []

        def is_read(state: ClusterState) -> bool:
            cluster.watch_clients("")
            there = {one.name: one for one in state.nodes}
            differs[:] = [
                f"{name}: {there.get(name)}"
                for name in self.nodes
                if not (
                    self._is_own_as_done()
                    if name == self.own.name
                    else name in there and bool(there[name].answers.error)
                    if name in silent
                    else name in there and self._is_as_done(there[name])
                )
            ]
            return not differs

        try:
            self.console.see("figures as they were made", is_read)
        except AssertionError as exc:
            raise AssertionError(f"{exc}: {differs}; wanted {self.nodes}") from exc

    def compare(self, *silent: str) -> None:
        """Each figure of each page with the sums."""
        self.see(*silent)
        for name in sorted({name for node in self.nodes.values() for name in node.topics}):
            self._compare_topic(name, silent)
        self._compare_lists(silent)
        self._compare_nodes(silent)
        self._compare_api(silent)

    def _is_own_as_done(self) -> bool:
        """In the newest snapshot of its engine, of which each second has one."""
        snapshot, counts = get_gateway().snapshot(), self.own.counts
        assert snapshot is not None
        found = {(topic.topic_name, one.channel_name): one for topic in snapshot.topics for one in topic.channels}
        return (
            all(
                key in found
                and (found[key].depth, found[key].finish_count, found[key].in_flight_count, found[key].paused)
                == (one.depth, one.finished, one.in_flight, one.is_paused)
                for key, one in counts.items()
                if key[1]
            )
            and sum(topic.message_count for topic in snapshot.topics) == self.own.sum().messages
        )

    def _is_as_done(self, node: Node) -> bool:
        stats, at = node.stats, self.nodes[node.name]
        if stats is None or not node.answers.is_answering or not stats.has_clients:
            return False
        if sorted(stats.topics) != at.topics:
            return False
        for (name, of), one in at.counts.items():
            there = stats.topics[name]
            if of and of not in there.channels:
                return False
            figures = (there.channels[of] if of else there).figures
            if (figures["depth"], figures["message_count"], figures["paused"]) != (
                one.depth,
                one.messages,
                one.is_paused,
            ):
                return False
            if of and (figures["in_flight_count"], figures["requeue_count"], figures["client_count"]) != (
                one.in_flight,
                one.requeued,
                one.consumers,
            ):
                return False
        return True

    def _having(self, name: str, of: str = "") -> list[At]:
        return [node for node in self.nodes.values() if (name, of) in node.counts]

    def _mark(self, silent: Collection[str], name: str = "", of: str = "") -> str:
        having = self._having(name, of) if name else self.nodes.values()
        return "≥ " if any(one.name in silent for one in having) else ""

    def _compare_topic(self, name: str, silent: Collection[str]) -> None:
        having = self._having(name)
        total, mark = self.sum(name, silent=silent), self._mark(silent, name)
        seen = self.pages.seen(f"/topics/{name}/", "topic", topic=name)
        assert seen.stats["waiting"][0] == f"{mark}{total.depth}"
        own_depth = sum(one.counts[name, ""].depth for one in having if one.name not in silent)
        assert seen.stats["depth"][0] == f"{mark}{own_depth}"
        assert re.search(rf" {mark}{total.messages} since start", seen.stats["published"][1]), seen.stats
        assert seen.stats["in_flight"][0] == f"{mark}{total.in_flight}"
        for node in having:
            one = node.sum(name)
            found = seen.figures("by_node", node.name, "depth", "messages", "in_flight", "channels", "clients")
            assert found == [
                str(number) for number in (one.depth, one.messages, one.in_flight, len(node.names(name)), one.consumers)
            ], (name, node.name)
        channels = {of for node in having for of in node.names(name)}
        assert seen.tables["channels"].keys() == channels
        if len(having) > 1:
            found = seen.figures("by_node", "*", "depth", "messages", "in_flight", "channels", "clients")
            numbers = (total.depth, total.messages, total.in_flight, len(channels), total.consumers)
            assert found == [f"{mark}{number}" for number in numbers], name
        for of in sorted(channels):
            one, least = self.sum(name, of, silent), self._mark(silent, name, of)
            found = seen.figures("channels", of, "depth", "in_flight", "messages", "connections")
            assert found == [f"{least}{number}" for number in (one.depth, one.in_flight, one.messages, one.consumers)]
            self._compare_channel(name, of, silent)

    def _compare_channel(self, name: str, of: str, silent: Collection[str]) -> None:
        one, mark = self.sum(name, of, silent), self._mark(silent, name, of)
        seen = self.pages.seen(f"/topics/{name}/{of}/", "channel", topic=name, channel=of)
        assert [seen.stats[stat][0] for stat in ("depth", "in_flight")] == [
            f"{mark}{one.depth}",
            f"{mark}{one.in_flight}",
        ]
        assert seen.stats["requeued"][1].startswith(f"{mark}{one.requeued} since start"), seen.stats
        assert f"{mark}{one.consumers} consumer" in seen.stats["in_flight"][1], seen.stats
        assert f" {mark}{one.messages} message" in seen.text
        assert f" {mark}{one.finished} finished since start" in seen.text, (name, of, seen.text[:900])
        for node in self._having(name, of):
            its = node.counts[name, of]
            found = seen.figures("by_node", node.name, "depth", "in_flight", "messages", "clients")
            assert found == [str(number) for number in (its.depth, its.in_flight, its.messages, its.consumers)]
        paused = [node.name for node in self._having(name, of) if node.counts[name, of].is_paused]
        if 0 < len(paused) < len(self._having(name, of)):
            assert f"paused on {len(paused)} of {len(self._having(name, of))}" in seen.text

    def _compare_lists(self, silent: Collection[str]) -> None:
        total, mark = self.sum(silent=silent), self._mark(silent)
        seen = self.pages.seen("/?show=all", "overview", show="all")
        assert [seen.stats[one][0] for one in ("waiting", "in_flight")] == [
            f"{mark}{total.depth}",
            f"{mark}{total.in_flight}",
        ]
        names = sorted({(name, of) for node in self.nodes.values() for name, of in node.counts})
        channels = [(name, of) for name, of in names if of]
        assert seen.tables["urgent"].keys() == {"/".join(key) for key in channels}
        for key in channels:
            one, least = self.sum(*key, silent), self._mark(silent, *key)
            found = seen.figures("urgent", "/".join(key), "depth", "in_flight", "nodes")
            assert found == [f"{least}{one.depth}", f"{least}{one.in_flight}", str(len(self._having(*key)))]
        seen = self.pages.seen("/topics/", "topics")
        assert seen.tables["topics"].keys() == {name for name, of in names if not of}
        for name in seen.tables["topics"]:
            one, least = self.sum(name, silent=silent), self._mark(silent, name)
            found = seen.figures("topics", name, "depth", "in_flight", "channels", "clients", "nodes")
            count = len({of for node in self._having(name) for of in node.names(name)})
            assert found == [
                *(f"{least}{number}" for number in (one.depth, one.in_flight, count, one.consumers)),
                str(len(self._having(name))),
            ]
        seen = self.pages.seen("/counter/", "counter")
        copies = sum(self.sum(*key, silent).messages for key in channels)
        finished = sum(self.sum(*key, silent).finished for key in channels)
        found_counts = [seen.stats[one][0] for one in ("published", "copies", "finished")]
        assert found_counts == [f"{mark}{number}" for number in (total.messages, copies, finished)]

    def _compare_nodes(self, silent: Collection[str]) -> None:
        total, mark = self.sum(silent=silent), self._mark(silent)
        seen = self.pages.seen("/nodes/", "nodes")
        assert seen.tables["nodes"].keys() == self.nodes.keys()
        found = [seen.stats[one][0] for one in ("answering", "depth", "clients")]
        assert found == [str(len(self.nodes) - len(silent)), f"{mark}{total.depth}", f"{mark}{total.consumers}"]

        def listed() -> bool:
            return f"{mark}{total.consumers}" == Seen.of_html(self.pages.html("/clients/")).stats["connections"][0]

        wait_for("all connections in the list", listed, every_s=0.2)
        clients = self.pages.seen("/clients/", "clients")
        assert clients.stats["in_flight"][0] == f"{mark}{total.in_flight}"
        for name, node in self.nodes.items():
            one = node.sum()
            found = seen.figures("nodes", name, "topics", "clients", "depth", "messages")
            if name in silent:
                assert found == [str(len(node.topics)), str(one.consumers), "–", "–"]
                continue
            assert found == [str(number) for number in (len(node.topics), one.consumers, one.depth, one.messages)], name
            page = self.pages.seen(f"/nodes/{quote(name)}/", "node", node=name)
            found = [page.stats[stat][0] for stat in ("depth", "in_flight", "messages", "clients")]
            assert found == [str(number) for number in (one.depth, one.in_flight, one.messages, one.consumers)]
            for its_topic in node.topics:
                own = node.counts[its_topic, ""]
                found = page.figures("node_topics", its_topic, "depth", "messages", "channels")
                assert found == [str(own.depth), str(own.messages), str(len(node.names(its_topic)))]
                for of in node.names(its_topic):
                    its = node.counts[its_topic, of]
                    found = page.figures(
                        "node_channels", f"{its_topic}/{of}", "depth", "in_flight", "requeued", "messages", "clients"
                    )
                    numbers = (its.depth, its.in_flight, its.requeued, its.messages, its.consumers)
                    assert found == [str(number) for number in numbers], (name, its_topic, of)
            of_node = [row for row in clients.tables["connections"].values() if row["node"] == name]
            assert len(of_node) == one.consumers
            assert sum(int(row["in_flight"].partition(" ")[0]) for row in of_node) == one.in_flight

    def _compare_api(self, silent: Collection[str]) -> None:
        orders, billing = self.sum("orders", silent=silent), self.sum("orders", "billing", silent)
        document = self.pages.json("/api/topics/orders")
        assert (document["message_count"], bool(document["message"])) == (orders.messages, bool(silent))
        depths = {one["channel_name"]: one["depth"] for one in document["channels"]}
        names = {of for node in self.nodes.values() if node.name not in silent for of in node.names("orders")}
        assert depths == {of: self.sum("orders", of, silent).depth for of in names}
        document = self.pages.json("/api/topics/orders/billing")
        counted = (billing.depth, billing.in_flight, billing.messages, billing.requeued, billing.consumers)
        keys = ("depth", "in_flight_count", "message_count", "requeue_count", "client_count")
        assert tuple(document[key] for key in keys) == counted
        assert len(document["clients"] or ()) == billing.consumers
        for name, node in self.nodes.items():
            if name not in silent:
                document = self.pages.json(f"/api/nodes/{name}")
                assert (document["total_messages"], document["total_clients"]) == (
                    node.sum().messages,
                    node.sum().consumers,
                )
        counter = {
            f"{name}:{of}:{node.name}": one.messages
            for node in self.nodes.values()
            if node.name not in silent
            for (name, of), one in node.counts.items()
            if of
        }

        def stats() -> dict[str, int]:
            found = self.pages.json("/api/counter")["stats"]
            return {key: one["message_count"] for key, one in found.items()}

        # This server's are those of its newest snapshot.
        wait_for("the counter", lambda: stats() == counter)


def _consume(consumers: ExitStack, port: int, name: str, of: str, finish: int, requeue: int, hold: int) -> None:
    """Over TCP: the messages that are held stay in flight with a consumer that stays connected."""
    one = consumers.enter_context(NsqSocket(port))
    one.identify(client_id=f"{of}-{port}", heartbeat_interval=60_000, msg_timeout=300_000)
    one.subscribe(name, of)

    def taken(count: int) -> list[Any]:
        one.send(b"RDY %d\n" % count)
        return [one.read_message() for _ in range(count)]

    for message in taken(finish) if finish else ():
        one.send(b"RDY 0\n")
        one.finish(message)
    for _ in range(requeue):
        (message,) = taken(1)
        one.send(b"RDY 0\nREQ " + message.id + b" 0\n")
    taken(hold)


def _of_engine(console: ClusterConsole, consumers: ExitStack) -> At:
    calls, port = console.engine.calls, console.engine.tcp_address[1]
    return At(
        console.own,
        lambda name, count: calls.publish(name, [BODY] * count).result(30),
        lambda *done: _consume(consumers, port, *done),
    )


def _of_daemon(daemon: DaemonProcess, consumers: ExitStack) -> At:
    return At(
        f"127.0.0.1:{daemon.http_port}",
        lambda name, count: daemon.http("POST", f"/mpub?topic={name}", b"\n".join([BODY] * count)),
        lambda *done: _consume(consumers, daemon.tcp_port, *done),
    )


def _of_fake(fake: FakeNsqd) -> At:
    def publish(name: str, count: int) -> None:
        one = fake.topics[name]
        one["message_count"] += count
        one["message_bytes"] += count * len(BODY)
        for each in one["channels"] or [one]:
            each["depth"] += count
            if each is not one:
                each["message_count"] += count

    def consume(name: str, of: str, finish: int, requeue: int, hold: int) -> None:
        one = fake.channel(name, of)
        number = one["client_count"]
        one["depth"] -= finish + hold
        one["in_flight_count"] += hold
        one["requeue_count"] += requeue
        one["client_count"] += 1
        counted = {"in_flight_count": hold, "finish_count": finish, "requeue_count": requeue, "ready_count": hold}
        address = f"10.0.0.{number}:{fake.port}"
        one["clients"].append(client(f"{of}-{number}", remote_address=address, **counted))

    return At(fake.address, publish, consume)


def _channels(*names: str) -> dict[Key, Counts]:
    """Of `topic` and `topic/channel`."""
    return {(one.partition("/")[0], one.partition("/")[2]): Counts() for one in names}


ORDERS = ("orders", "orders/billing", "orders/mail")


def _fields_of(html: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    hidden = re.findall(r'<input\s+type="hidden" name="([^"]+)" value="([^"]*)"', html)
    for name, value in [*hidden, *re.findall(r'<input\s+type="checkbox" name="([^"]+)" value="([^"]*)" checked', html)]:
        found.setdefault(name, []).append(unescape(value))
    return found


_OUTCOMES = ("done", "UNREACHABLE", "done", "no answer", "INTERNAL_ERROR")


def _make(daemon: DaemonProcess) -> None:
    daemon.http("POST", "/topic/create?topic=orders")
    for of in ("billing", "mail"):
        daemon.http("POST", f"/channel/create?topic=orders&channel={of}")


def grown_in_graphs(console: ClusterConsole) -> dict[str, float]:
    """What the graphs of the overview have counted in all, once growth of the last readings is spread."""
    for _ in range(40):
        console.see()
    changes = {name: get_hub().rings[TOTAL].change(name, SECONDS - 1) for name in ("messages", "finished")}
    return {name: change[0] for name, change in changes.items() if change is not None}


def _last_row() -> AuditRow:
    row = AuditRow.objects.filter(phase=Phase.RESULT).first()
    assert row is not None
    return row


def _200_mb() -> Iterator[bytes]:
    part = b'{"topics": [' + b" " * (1 << 20)
    return iter([part] * 200)


def test_every_figure_is_the_sum_of_what_was_done_while_nodes_fail(tmp_path: Path) -> None:
    with ExitStack() as stack:
        consumers = stack.enter_context(ExitStack())
        fakes = [FakeNsqd(version=version) for version in ("1.3.0", "1.2.1", "1.1.0")]
        slow, stopping, failing = [stack.enter_context(one) for one in fakes]
        for one in fakes:
            one.topics["orders"] = topic("orders", channel("billing"), channel("mail"))
        stopping.topics["far"] = topic("far", channel("away"))
        failing.topics["far"] = topic("far")
        (tmp_path / "own").mkdir()
        daemon = DaemonProcess(tmp_path / "daemon")
        daemon.start()
        stack.callback(daemon.kill9)
        _make(daemon)
        lookup = stack.enter_context(FakeNode())
        named = [one.port for one in fakes] + [daemon.http_port]
        lookup.answers["/nodes"] = {"producers": [producer(port, topics=("orders",)) for port in named]}
        lookup.answers["/topics"] = {"topics": ["orders", "far", "alone"]}
        console = stack.enter_context(cluster_console(tmp_path / "own", lookupds=[lookup], timeout_s=TIMEOUT_S))
        own = _of_engine(console, consumers)
        calls = console.engine.calls
        for name in ("orders", "alone"):
            calls.create_topic(name).result(30)
        for of in ("billing", "mail"):
            calls.create_channel("orders", of).result(30)
        at = [own, _of_daemon(daemon, consumers), *map(_of_fake, fakes)]
        five = Five(console, Pages(client_of(make_user())), at)
        for node in at:
            node.counts = _channels(*ORDERS)
        own.counts |= _channels("alone")
        at[3].counts |= _channels("far", "far/away")
        at[4].counts |= _channels("far")
        # Different counts at each: a sum that took one twice, or another one's, is another sum.
        for number, node in enumerate(at):
            node.publish("orders", 10**number)
            for name in {*node.topics} - {"orders"}:
                node.publish(name, 7 + number)
        five.see()
        for number, node in enumerate(at[1:], 1):
            node.consume("orders", "billing", finish=2 * number, requeue=number, hold=number)
            node.consume("orders", "mail", hold=1)
        own.publish("orders", 20)
        own.consume("orders", "mail", finish=3, hold=4)
        five.compare()
        grown = grown_in_graphs(console)
        # All at once: it takes 4 s, does it and goes, answers 500, is stopped. The fifth is this server.
        stopping.clock_s = 3_600.0
        is_over = threading.Event()
        stack.callback(is_over.set)

        def late() -> Answer:
            is_over.wait(4.0)
            slow.channel("orders", "billing")["paused"] = True
            os.kill(daemon.pid, signal.SIGKILL)  # which has read nothing since it was stopped
            return b""

        def does_and_goes() -> Answer:
            stopping.channel("orders", "billing")["paused"] = True
            stopping.failing = _CUT
            return _CUT

        slow.answers["/channel/pause"] = late
        stopping.answers["/channel/pause"] = does_and_goes
        failing.answers["/channel/pause"] = (500, {}, b'{"message":"INTERNAL_ERROR"}')
        browser = client_of(make_user("grace"))
        fields = _fields_of(browser.get(PAUSE, headers=DIALOG).content.decode())
        assert sorted(filter(None, fields["node"])) == sorted(five.nodes)
        os.kill(daemon.pid, signal.SIGSTOP)
        answer = browser.post(PAUSE, fields, headers=JSON).json()
        rows = {one["node"]: one for one in answer["nodes"]}
        is_done = {name: row["ok"] for name, row in rows.items()}
        of_daemon = at[1].name
        nodes = (own.name, of_daemon, slow.address, stopping.address, failing.address)
        assert [is_done[name] for name in nodes] == [True, False, True, False, False]
        assert "Nothing was done" in rows[of_daemon]["message"]
        assert "may have been done" in rows[stopping.address]["message"]
        assert "its figures do not show it" in rows[failing.address]["message"]
        outcomes = {f"{name} {word}" for name, word in zip(nodes, _OUTCOMES, strict=True)}
        assert set(_last_row().detail.split("; ")) == outcomes
        for node in (own, at[2]):
            node.counts["orders", "billing"].is_paused = True
        five.compare(stopping.address, of_daemon)
        # It comes back, restarted: its counters began at 0, it has its messages, and nothing is connected.
        stopping.failing = None
        stopping.restart()
        for one in at[3].counts.values():
            one.messages = one.finished = one.requeued = one.consumers = 0
            one.depth, one.in_flight = one.depth + one.in_flight, 0
        at[3].counts["orders", "billing"].is_paused = True
        five.see(of_daemon)
        at[3].publish("orders", 5)
        at[3].consume("orders", "mail", finish=600)
        five.compare(of_daemon)
        # One sends 200 MB for its figures: it is silent, and takes no part in an act.
        failing.answers["/stats"] = lambda: (200, {}, _200_mb())
        typed = {"node": [slow.address, failing.address], "typed_name": "orders/mail"}
        answer = browser.post(EMPTY, typed, headers=JSON).json()
        rows = {one["node"]: one for one in answer["nodes"]}
        assert rows[slow.address]["message"].startswith(
            "Emptied orders/mail: removed 100 messages (depth 99, 1 in flight)."
        ), answer
        assert "answered with more than 33554432 bytes" in rows[failing.address]["message"]
        emptied = at[2].counts["orders", "mail"]
        emptied.depth = emptied.in_flight = 0
        five.compare(failing.address, of_daemon)
        del failing.answers["/stats"]
        # Another one in the place of the one that was killed; that one killed, and started again.
        daemon.kill9()
        other = DaemonProcess(tmp_path / "other", options=["--storage=log"])
        other.tcp_port, other.http_port = daemon.tcp_port, daemon.http_port
        stack.callback(other.kill9)
        other.start()
        _make(other)
        replaced = five.nodes[of_daemon] = _of_daemon(other, consumers)
        replaced.counts = _channels(*ORDERS)
        replaced.publish("orders", 40)
        replaced.consume("orders", "mail", finish=30, hold=2)
        five.compare()
        other.kill9()
        other.start()
        for one in replaced.counts.values():
            one.messages = one.finished = one.requeued = one.consumers = 0
            one.depth, one.in_flight = one.depth + one.in_flight, 0
        replaced.publish("orders", 2)
        five.compare()
        # Another one in its place that has been running for a year.
        slow.started_s = 1_600_000_000
        slow.topics["orders"]["message_count"] += 1_000_000
        at[2].counts["orders", ""].messages += 1_000_000
        slow.channel("orders", "mail")["message_count"] += 1_000_000
        at[2].counts["orders", "mail"].messages += 1_000_000
        # What was emptied in that process is unknown: the 100 of this walk count as finished again.
        at[2].counts["orders", "mail"].finished += 1_000_000 + 100
        five.compare()
        now = grown_in_graphs(console)
        assert now["messages"] - grown["messages"] == 5 + 40 + 2
        assert now["finished"] - grown["finished"] == 600 + 30
