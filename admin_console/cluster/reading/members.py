"""The nodes that the console calls, by the addresses of the options and the registrations at nsqlookupds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_rules import NodeRules
from admin_console.cluster.reading.registrations import Registration


@dataclass(frozen=True, slots=True)
class Member:
    """One address at which a node is called. target: where; named: as the node or the options name it, which differs
    for a node behind NAT. registrations: by nsqlookupd. refusal: why it is not called; "" where it is."""

    target: HttpAddress
    named: HttpAddress
    is_configured: bool
    registrations: Mapping[HttpAddress, Registration] = field(default_factory=dict)
    refusal: str = ""

    @property
    def registration(self) -> Registration | None:
        """Any of them: nodes register everywhere alike."""
        return next(iter(self.registrations.values()), None)


def members_of(
    configured: Iterable[HttpAddress],
    named: Mapping[HttpAddress, Iterable[Registration]],
    rules: NodeRules,
) -> tuple[Member, ...]:
    """One for each address to call, sorted. named: by nsqlookupd, the registrations of its last answer."""
    is_configured = {rules.target_of(address): address for address in configured}
    addresses = dict(is_configured)
    registrations: dict[HttpAddress, dict[HttpAddress, Registration]] = {}
    for lookupd, found in named.items():
        for one in found:
            target = rules.target_of(one.address)
            addresses.setdefault(target, one.address)
            registrations.setdefault(target, {})[lookupd] = one
    return tuple(
        Member(target, address, target in is_configured, registrations.get(target, {}), rules.refusal(target))
        for target, address in sorted(addresses.items())
    )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a node is, by its `/info`: two addresses with one identity are one node. An nsqd has no number of its
    own, so it is all of this: two nodes of one host name and ports, as behind NAT, start at different seconds."""

    hostname: str
    broadcast_address: str
    tcp_port: int
    http_port: int
    started_s: int  # Unix seconds


def without_duplicates(
    members: Iterable[Member], identities: Mapping[HttpAddress, Identity], own: Identity | None
) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """The members, each node once; and apart those at which the engine of this process answers, whose identity is
    `own`.

    Of several addresses the configured one stays, else the first; it gets the registrations of all of them.
    """
    found: dict[object, Member] = {}
    embedded: list[Member] = []
    for member in members:
        identity = identities.get(member.target)
        if identity is not None and identity == own:
            embedded.append(member)
            continue
        key: object = member.target if identity is None else identity
        first = found.get(key)
        if first is None:
            found[key] = member
            continue
        main = member if member.is_configured and not first.is_configured else first
        merged = {**first.registrations, **member.registrations}
        found[key] = Member(main.target, main.named, main.is_configured, merged, main.refusal)
    return tuple(sorted(found.values(), key=lambda one: one.target)), tuple(embedded)
