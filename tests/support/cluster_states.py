"""States of a cluster as the poller makes them, from documents as nodes answer (`fake_nsqd.py`): without any call."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.options import Addresses
from admin_console.cluster.reading.members import Identity, Member
from admin_console.cluster.reading.node_info import NodeInfo
from admin_console.cluster.reading.node_stats import node_stats_in
from admin_console.cluster.reading.nodes import Answers, ClusterState, Node
from admin_console.cluster.reading.registrations import Registration

ERROR = "http://nsq/stats can't be reached: Connection refused."


def node(
    name: str,
    *topics: dict[str, Any],
    read_at_ms: int,
    started_s: int = 1_700_000_000,
    version: str = "1.3.0",
    is_silent: bool = False,
    with_clients: bool = False,
) -> Node:
    """A node that answered with these topics, as `fake_nsqd.topic` makes them; is_silent: and not any more. name:
    HOST:PORT."""
    address = HttpAddress.parse(name)
    document = {"version": version, "health": "OK", "start_time": started_s, "topics": list(topics)}
    error = (ERROR, read_at_ms + 1_000) if is_silent else ("", 0)
    return Node(
        Member(address, address, is_configured=True),
        Answers(read_at_ms, 2, *error),
        NodeInfo(Identity(address.host, address.host, 4150, address.port, started_s), version),
        node_stats_in(document, with_clients=with_clients, read_at_ms=read_at_ms),
    )


def unread(name: str, *registered: str) -> Node:
    """A node that never answered, and registered these topics."""
    address = HttpAddress.parse(name)
    found = Registration(address, address.host, 4150, "1.3.0", "", tuple(registered))
    registrations = {HttpAddress("lookup", 4161): found} if registered else {}
    return Node(Member(address, address, is_configured=not registered, registrations=registrations))


def silent(one: Node) -> Node:
    """The node, which does not answer any more."""
    return replace(one, answers=replace(one.answers, error=ERROR, failing_since_ms=one.answers.answered_at_ms + 1_000))


def state(nodes: Iterable[Node]) -> ClusterState:
    listed = tuple(nodes)
    return ClusterState(Addresses((), tuple(one.member.target for one in listed)), nodes=listed)
