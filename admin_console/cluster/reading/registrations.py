"""An nsqlookupd's answer to `/nodes`: the nodes that registered there, each with its topics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from admin_console.cluster.calls.addresses import HttpAddress
from queue_engine.vocabulary.options.addresses import joined

# Of one nsqlookupd at a time; beyond, a program that registers nodes without end would fill every page.
NODES_MAX = 2_000
ENTRIES_MAX = 20_000  # that are looked at
TOPICS_MAX = 20_000
TEXT_LENGTH_MAX = 255  # of a host name


@dataclass(frozen=True, slots=True)
class Registration:
    """A node as it registered at one nsqlookupd. address: its HTTP API, as it names it. remote_address: of its
    connection to the nsqlookupd. tombstoned: those of its topics that consumers do not find for a while."""

    address: HttpAddress
    hostname: str
    tcp_port: int
    version: str
    remote_address: str
    topics: tuple[str, ...] = ()
    tombstoned: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Registrations:
    """One answer. unusable: how many entries name no address that can be called, or are beyond the limit. left_out: the
    addresses beyond NODES_MAX."""

    nodes: tuple[Registration, ...] = ()
    unusable: int = 0
    left_out: frozenset[HttpAddress] = frozenset()


NO_REGISTRATIONS = Registrations()


def registrations_in(entries: Sequence[Any], rank: Callable[[HttpAddress], int] = lambda address: 0) -> Registrations:
    """The producers of an answer to `/nodes`. An entry that can't be read costs itself alone. rank: which nodes stay
    of more than NODES_MAX, the least first, whatever the order of the answer."""
    found = [made for entry in entries[:ENTRIES_MAX] if (made := _registration(entry)) is not None]
    left_out: list[Registration] = []
    if len(found) > NODES_MAX:
        each = {one.address: one for one in found}
        found = sorted(each.values(), key=lambda one: (rank(one.address), one.address))
        found, left_out = found[:NODES_MAX], found[NODES_MAX:]
    return Registrations(tuple(found), len(entries) - len(found), frozenset(one.address for one in left_out))


def _registration(entry: Any) -> Registration | None:
    if not isinstance(entry, dict):
        return None
    # Before 0.3 the address was called so.
    host = _text(entry.get("broadcast_address")) or _text(entry.get("address"))
    port = entry.get("http_port")
    if type(port) is not int:
        return None
    try:
        address = HttpAddress.parse(joined(host, port))
    except ValueError:
        return None
    names = entry.get("topics")
    topics = [name if isinstance(name, str) else None for name in names[:TOPICS_MAX]] if isinstance(names, list) else []
    marks = entry.get("tombstones")
    hidden = marks if isinstance(marks, list) else []
    return Registration(
        address,
        _text(entry.get("hostname")),
        tcp if type(tcp := entry.get("tcp_port")) is int and 0 < tcp < 65536 else 0,
        _text(entry.get("version")),
        _text(entry.get("remote_address")),
        tuple(name for name in topics if name is not None),
        # In step with `topics`, and shorter where an nsqlookupd answered while a topic came.
        frozenset(name for name, mark in zip(topics, hidden, strict=False) if name is not None and mark is True),
    )


def _text(value: Any) -> str:
    return value[:TEXT_LENGTH_MAX] if isinstance(value, str) else ""
