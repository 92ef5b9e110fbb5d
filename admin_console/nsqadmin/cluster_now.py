"""The cluster as one request of nsqadmin's interface reads it."""

from dataclasses import dataclass
from functools import cached_property

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.cluster import Cluster, get_cluster
from admin_console.cluster.reading.nodes import Node
from admin_console.cluster.reading.registrations import Registration
from admin_console.gateway.gateway import EngineUnavailableError, Gateway, get_gateway
from admin_console.gateway.nodes_now import LookupdNow, NodeNow, read_engine, read_lookupds, read_nodes
from admin_console.nsqadmin.documents import Producer

STARTING = "this console is starting or stopping"


@dataclass(frozen=True, slots=True)
class Found:
    """answers: of the nodes that answered. failures: why others did not, a sentence each."""

    answers: tuple[NodeNow, ...] = ()
    failures: tuple[str, ...] = ()

    def having(self, topic: str) -> "Found":
        """The answers that have the topic."""
        found = tuple(one for one in self.answers if one.topics and topic in one.topics)
        return Found(found, self.failures)


class ClusterNow:
    """One request's view; each part is read once, when it is used. Raises EngineUnavailableError while `serve` is
    starting or stopping."""

    def __init__(self) -> None:
        found = get_cluster()
        if found is None:
            raise EngineUnavailableError(STARTING)
        self.cluster: Cluster = found
        self.gateway: Gateway = get_gateway()

    @property
    def has_lookupds(self) -> bool:
        return bool(self.cluster.state.addresses.lookupds)

    @property
    def own_name(self) -> str:
        """The engine of this process as nsqlookupds name it, else by its address; "" without one."""
        if "publish" not in self.gateway.node().capabilities:
            return ""
        embedded = self.cluster.state.embedded
        return embedded[0].named.bare if embedded else self.gateway.node().name

    @cached_property
    def lookupds(self) -> list[LookupdNow]:
        return read_lookupds(self.cluster)

    @property
    def lookupd_failures(self) -> list[str]:
        return [one.error for one in self.lookupds if one.error]

    @property
    def lookupd_errors(self) -> list[str]:
        """`lookupd_failures`, read only where one did not answer the poller's last call: figures do not need them, and
        one that hangs would cost each request its time."""
        is_failing = any(one.answers.failures for one in self.cluster.state.lookupds)
        return self.lookupd_failures if is_failing else []

    def lists(self, topic: str) -> bool:
        """Whether an nsqlookupd lists the topic."""
        return any(topic in one.topics for one in self.lookupds)

    def figures(self, *, topic: str = "", channel: str = "", clients: bool = False, node: str = "") -> Found:
        """Of all nodes, or of one. A silent node that does not have the topic is left out."""
        nodes = [one for one in self.cluster.state.called if node in ("", one.name)]
        read = read_nodes(self.cluster, nodes, topic=topic, channel=channel, clients=clients)
        pairs = zip(nodes, read, strict=True)
        answers = [one for each, one in pairs if not (topic and one.error) or self._may_have(each, topic)]
        own, identity = self.own_name, self.cluster.own_identity
        # Listed as it would register, where it does not.
        listed = HttpAddress(identity.broadcast_address, identity.http_port).bare if identity is not None else own
        if own and node in ("", own, listed):
            hostname = identity.hostname if identity is not None else ""
            answers.append(read_engine(self.gateway, own, hostname, topic=topic, channel=channel, clients=clients))
        answers.sort(key=lambda one: one.name)
        return Found(tuple(one for one in answers if not one.error), tuple(one.error for one in answers if one.error))

    def _may_have(self, node: Node, topic: str) -> bool:
        """Whether a node had the topic in its last answer, or registered it since."""
        if node.stats is None or topic in node.stats.topics or topic in node.stats.left_out:
            return True
        registered = (one for lookupd in self.lookupds for one in lookupd.nodes)
        return any(topic in one.topics for one in registered if one.address.bare == node.name)

    def producers(self) -> list[Producer]:
        """Every node once: as nsqlookupds name it, else as it names itself."""
        by_name: dict[str, dict[str, Registration]] = {}
        for lookupd in self.lookupds:
            for one in lookupd.nodes:
                by_name.setdefault(one.address.bare, {})[lookupd.address.bare] = one
        others = [one for one in self.cluster.state.answering if one.name not in by_name and one.member.is_configured]
        topics_now = {one.name: one.topics for one in self.figures().answers} if others else {}
        for node in others:
            if node.info is not None:
                identity, topics = node.info.identity, topics_now.get(node.name) or ()
                by_name[node.name] = {
                    "": Registration(
                        HttpAddress(identity.broadcast_address, identity.http_port),
                        identity.hostname,
                        identity.tcp_port,
                        node.info.version,
                        "",
                        tuple(topics),
                    )
                }
        embedded = {member.named.bare for member in self.cluster.state.embedded}
        own, identity_now = self.own_name, self.cluster.own_identity
        if own and identity_now is not None and not (embedded | {own}) & by_name.keys():
            snapshot = self.gateway.snapshot()
            by_name[own] = {
                "": Registration(
                    HttpAddress(identity_now.broadcast_address, identity_now.http_port),
                    identity_now.hostname,
                    identity_now.tcp_port,
                    self.gateway.node().version,
                    "",
                    tuple(one.topic_name for one in snapshot.topics) if snapshot is not None else (),
                )
            }
        return [Producer(registrations) for registrations in by_name.values()]
