"""The differences between nodes, as findings: those about whole nodes and nsqlookupds. `topic_differences.py` has those
about a topic or channel. Pure functions: all comes in the arguments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.reading.members import Member
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.vocabulary import units

# The kinds, the worst first: the word of each.
CONSUMERS, TOMBSTONE, CHANNEL, LOOKUPDS, CLOCK, SHARE, PAUSED, VERSIONS = KINDS = (
    "consumers",
    "tombstone",
    "channel",
    "nsqlookupds",
    "clock",
    "share",
    "paused",
    "versions",
)
SHARE_LEAST = 0.9
SHARE_RATE_S_LEAST = 1.0  # of the whole cluster: below, one message more is a share
CLOCK_MS_MOST = 2_000
_NAMED_MAX = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding. title: the difference, a sentence; text: its consequence. topic, channel, node: its subject, and the
    place to look or to act; "" for none. is_place_alone: node is no part of the subject: as the figures change, another
    one may be the place of the same finding. lookupd: of which nsqlookupd it is. weight: orders those of one kind.
    since_ms: when it was found, Unix. part: at how many of the nodes: "2 of 3"."""

    kind: str
    title: str
    text: str = ""
    topic: str = ""
    channel: str = ""
    node: str = ""
    weight: float = 0
    since_ms: int = 0
    lookupd: str = ""
    is_place_alone: bool = False
    part: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """Of the finding while its figures change."""
        node = "" if self.is_place_alone else self.node
        return (self.kind, self.topic, self.channel, node, self.lookupd)

    @property
    def order(self) -> tuple[int, float, str]:
        return (KINDS.index(self.kind), -self.weight, self.title)


@dataclass(frozen=True, slots=True)
class Peer:
    """A node, the engine of this process among them. product: program and version; "" where unknown. published_s:
    messages a second; None where unknown."""

    name: str
    product: str = ""
    published_s: float | None = None
    is_answering: bool = True


def peers_of(state: ClusterState, own: Peer | None) -> tuple[Peer, ...]:
    """own: the engine of this process; None without one."""
    found = [] if own is None else [own]
    for node in state.called:
        is_answering = node.answers.is_answering
        product = node.info.product if node.info is not None else ""
        found.append(Peer(node.name, product, node.rates.published_s if is_answering else None, is_answering))
    return tuple(found)


def differences_of_nodes(state: ClusterState, own: Peer | None) -> list[Difference]:
    """Those that need no history."""
    peers = peers_of(state, own)
    return [*shares(peers), *versions(peers), *clocks(state)]


def shares(peers: Sequence[Peer]) -> list[Difference]:
    """A node that gets nearly all. Where the rate of a node is unknown, all shares are."""
    rates = [(peer.published_s, peer.name) for peer in peers if peer.published_s is not None]
    if len(rates) < max(2, len(peers)):
        return []
    total_s = sum(rate for rate, _ in rates)
    most_s, name = max(rates)
    if total_s < SHARE_RATE_S_LEAST or most_s < SHARE_LEAST * total_s:
        return []
    rest = units.plural(len(peers) - 1, "other node")
    verb = "gets" if len(peers) == 2 else "get"
    text = f"The {rest} {verb} {units.rate(total_s - most_s)}: producers may name {name} alone."
    return [Difference(SHARE, f"{name} gets {units.share(most_s, total_s)} of all messages.", text, node=name)]


def versions(peers: Iterable[Peer]) -> list[Difference]:
    """Nodes of one program that run several versions of it."""
    counts: dict[str, int] = {}
    for peer in peers:
        if peer.product:
            counts[peer.product] = counts.get(peer.product, 0) + 1
    programs = [product.partition(" ")[0] for product in counts]
    if len(programs) == len(set(programs)):
        return []
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    words = [f"{product} on {units.plural(count, 'node')}" for product, count in ordered]
    return [Difference(VERSIONS, f"{len(ordered)} versions: {listed(words, len(words))}.")]


def clocks(state: ClusterState) -> list[Difference]:
    """Clocks that are off from this server's. Where all are, it is this one's that differs."""
    compared = [(node.name, node.clock.differs_ms) for node in state.answering if node.clock is not None]
    off = [(name, off_ms) for name, off_ms in compared if abs(off_ms) > CLOCK_MS_MOST]
    is_ours = len(off) == len(compared) > 2 and len({off_ms > 0 for _, off_ms in off}) == 1
    if is_ours:
        least_ms = min(abs(off_ms) for _, off_ms in off)
        where = "behind" if off[0][1] > 0 else "ahead of"
        return [
            Difference(
                CLOCK,
                f"This server's clock is {least_ms / 1000:.1f} s {where} those of all {len(off)} other nodes.",
                "Ages on all pages are off by as much.",
                weight=least_ms,
            )
        ]
    return [
        Difference(
            CLOCK,
            f"{name}'s clock is {abs(off_ms) / 1000:.1f} s {'ahead' if off_ms > 0 else 'behind'}.",
            "Ages and latencies of its messages are off by as much.",
            node=name,
            weight=abs(off_ms),
        )
        for name, off_ms in off
    ]


def lookupds_that_disagree(state: ClusterState, own_name: str) -> list[Difference]:
    """nsqlookupds that answer and lack a node or topic that another one lists. They are read one after another: a
    moment apart, two answers may differ by a change between them, so that a finding counts once it lasts."""
    answering = [one.address for one in state.lookupds if one.answers.is_answering]
    members = [(node.name, node.member) for node in state.nodes]
    members += [(own_name or member.named.bare, member) for member in state.embedded]
    found = []
    for lookupd in answering if len(answering) > 1 else ():
        missing = sorted({name for name, member in members if _is_missing(member, lookupd, answering)})
        if missing:
            one = missing[0] if len(missing) == 1 else units.plural(len(missing), "node")
            are = "is" if len(missing) == 1 else "are"
            found.append(
                Difference(
                    LOOKUPDS,
                    f"{lookupd} does not name {one}.",
                    f"{listed(missing)} {are} registered at another nsqlookupd: consumers that use {lookupd} alone do "
                    f"not find {'it' if len(missing) == 1 else 'them'}.",
                    node=missing[0],
                    weight=len(missing),
                    lookupd=str(lookupd),
                    is_place_alone=True,
                )
            )
        for name, member in members:
            lacking = sorted(_topics_missing(member, lookupd, answering))
            if lacking:
                topics = f"topic {lacking[0]}" if len(lacking) == 1 else units.plural(len(lacking), "topic")
                found.append(
                    Difference(
                        LOOKUPDS,
                        f"{lookupd} lacks {topics} of {name}.",
                        f"Another nsqlookupd lists {listed(lacking)} there.",
                        topic=lacking[0],
                        node=name,
                        weight=len(lacking) / 1_000,
                        lookupd=str(lookupd),
                    )
                )
    return found


def _is_missing(member: Member, lookupd: HttpAddress, answering: Sequence[HttpAddress]) -> bool:
    return lookupd not in member.registrations and any(one in member.registrations for one in answering)


def _topics_missing(member: Member, lookupd: HttpAddress, answering: Sequence[HttpAddress]) -> set[str]:
    if lookupd not in member.registrations:
        return set()
    listed = set(member.registrations[lookupd].topics)
    others = (member.registrations[one].topics for one in answering if one != lookupd and one in member.registrations)
    return {topic for topics in others for topic in topics} - listed


def lasting(found: Iterable[Difference], since_ms: dict[tuple[str, ...], int], now_ms: int) -> list[Difference]:
    """The findings with the time since when each stands. since_ms: of the call before; is brought up to date."""
    dated = [replace(one, since_ms=since_ms.get(one.key, now_ms)) for one in found]
    since_ms.clear()
    since_ms.update({one.key: one.since_ms for one in dated})
    return dated


def listed(names: Sequence[str], most: int = _NAMED_MAX) -> str:
    """`a, b and c`; `a, b, c and 4 more`."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
