"""The nodes that have a topic or channel, and whether its messages can be read there."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admin_console.cluster.cluster import get_cluster
from admin_console.gateway.gateway import TopicStats, get_gateway, why_no_engine, why_not
from admin_console.gateway.node_requests import why_node_can_not
from admin_console.hub.hub import get_hub
from admin_console.screens.partial import own_storage
from admin_console.views.on_nodes import all_in_words, in_short

if TYPE_CHECKING:
    from admin_console.gateway.node_messages import NodeMessages

# Uses of a node (`why_not` of the acts' table): the messages of a channel, and those of a topic as they were published.
OF_CHANNEL = "list_messages"
OF_TOPIC = "read_messages"


@dataclass(frozen=True, slots=True)
class Reader:
    """A remote node whose messages may be read. why_not: why they can't, without a full stop; "" where they can."""

    name: str
    topic: TopicStats
    why_not: str
    messages: "NodeMessages"
    is_answering: bool


def readers_of(topic: str, channel: str = "", *, user: str = "") -> list[Reader]:
    """The remote nodes that have the topic, or the channel, sorted by name. user: who reads their messages."""
    cluster, live = get_cluster(), get_hub().live
    if cluster is None or live is None or live.cluster is None:
        return []
    # Here: a server without other nodes starts without an HTTP client.
    from admin_console.gateway.node_messages import NodeMessages

    use = OF_CHANNEL if channel else OF_TOPIC
    names = (topic, channel) if channel else (topic,)
    nodes = {node.name: node for node in live.cluster.state.nodes}
    found = []
    for place in sorted(live.cluster.by_topic.get(topic, ()), key=lambda place: place.node):
        node = nodes.get(place.node)
        if place.is_embedded or node is None or place.of(channel) is None:
            continue
        storage = place.stats.storage
        reason = why_node_can_not(node, use) or (why_not(use, storage, *names) if storage else "")
        messages = NodeMessages(node, cluster, user)
        found.append(Reader(node.name, place.stats, reason, messages, node.answers.is_answering))
    return found


def is_at_this_server(topic: str, channel: str = "") -> bool:
    """By the newest figures of the cluster."""
    live = get_hub().live
    places = live.cluster.places(topic, channel) if live is not None and live.cluster is not None else ()
    return any(place.is_embedded for place in places)


def own_why_not(topic: str, channel: str = "") -> str | None:
    """Why this server does not show the messages, without a full stop; "" where it does; None where they are at other
    nodes alone."""
    if readers_of(topic, channel) and not is_at_this_server(topic, channel):
        return None
    use = OF_CHANNEL if channel else OF_TOPIC
    if use not in get_gateway().capabilities:
        return why_no_engine(use).removesuffix(".")
    live = get_hub().live
    found = live.topics.get(topic) if live is not None else None
    storage = own_storage(live, found) if live is not None and found is not None else ""
    return why_not(use, storage, *filter(None, (topic, channel))) if storage else ""


def why_unreadable(topic: str, channel: str = "") -> str:
    """Why no node shows the messages of a topic or channel, a sentence; "" where one does."""
    own = own_why_not(topic, channel)
    reasons = [*([] if own is None else [own]), *(one.why_not for one in readers_of(topic, channel))]
    return "" if not all(reasons) else " ".join(all_in_words([in_short(reasons)]))
