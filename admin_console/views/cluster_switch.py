"""The header's switch: the console's clusters, each as a link to the page that is open, as that cluster has it."""

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import ResolverMatch

from admin_console.cluster.cluster import cluster_names, get_cluster
from admin_console.hub.hub import get_hub
from admin_console.screens.links import url_of
from admin_console.vocabulary.current_cluster import current_cluster, in_cluster


@dataclass(frozen=True, slots=True)
class ClusterLink:
    label: str
    url: str
    is_current: bool


def cluster_links(match: ResolverMatch, place: str, is_there: Callable[[str], bool]) -> list[ClusterLink]:
    """Of each cluster; none where there is only one. place: the header's place of the page, another name where it has
    none. is_there: whether a cluster has the place, called in its context."""
    names = _shown()
    here = current_cluster()
    found = []
    for name in names if len(names) > 1 else ():
        with in_cluster(name):
            found.append(ClusterLink(label_of(name), _page(match, place, is_there), name == here))
    return found


def label_of(name: str) -> str:
    """On pages. Called in the cluster's context."""
    cluster = get_cluster()
    return name or ("This server" if cluster is not None and cluster.has_engine else "No name")


def first_page() -> str:
    """Where the console's first page leads instead: the unnamed cluster has no node, and others have names; else ""."""
    names = _shown()
    if current_cluster() or not names or "" in names:
        return ""
    with in_cluster(names[0]):
        return url_of("overview")


def _shown() -> list[str]:
    """All but an unnamed one without nodes."""
    with in_cluster(""):
        unnamed = get_cluster()
    return [name for name in cluster_names() if name or (unnamed is not None and unnamed.has_any)]


def _page(match: ResolverMatch, place: str, is_there: Callable[[str], bool]) -> str:
    """The page of this cluster that is nearest to the one that is open: Overview where it does not have the thing."""
    names = match.kwargs
    topic, channel = names.get("topic", ""), names.get("channel", "")
    live = get_hub().live
    if topic:
        if live is None or topic not in live.topics:
            return url_of("overview")
        return url_of("channel", topic, channel) if (topic, channel) in live.channels else url_of("topic", topic)
    cluster = get_cluster()
    if (node := names.get("node")) and cluster is not None and any(one.name == node for one in cluster.state.nodes):
        return url_of("node", node)
    return url_of(place) if is_there(place) else url_of("overview")
