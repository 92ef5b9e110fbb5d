"""The gateway of a console without an engine, and of a named cluster, which the engine is no part of: figures are those
of the nodes, and acts are theirs.

A read that takes an engine of the console's own, such as of the trash, is refused as the Gateway itself does.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from admin_console.gateway.gateway import (
    FAILED,
    NO_AUTHOR,
    ActOrder,
    ActResult,
    Asker,
    Connections,
    Deletion,
    EngineSnapshot,
    EngineUnavailableError,
    Gateway,
    NodeInfo,
    full_version,
    no_engine,
)
from admin_console.gateway.history import LakeHistory
from queue_engine.vocabulary.options.options import Options

NO_FIGURES = "No figures have come from the nodes yet."
# The acts of the console itself, at nsqlookupds, and of its pipeline's worker on the history. A topic is created at
# nsqlookupds and nodes.
CAPABILITIES_OF_NAMED = frozenset(
    {
        "create_topic",
        "register_name",
        "set_addresses",
        "tombstone_producer",
        "unregister_channel",
        "unregister_topic",
    }
)
CAPABILITIES = CAPABILITIES_OF_NAMED | {"start_job", "stop_job"}


class ClusterOnlyGateway(Gateway):
    """A Gateway without an engine. newest: returns the cluster's newest figures, None before the first. cluster: its
    name; the pipeline is not of a named one."""

    def __init__(self, options: Options, newest: Callable[[], EngineSnapshot | None], *, cluster: str = "") -> None:
        self._capabilities = CAPABILITIES_OF_NAMED if cluster else CAPABILITIES
        self._options = options
        self._newest = newest
        self._history = LakeHistory(os.path.join(options.data_path, "pipeline"))

    @property
    def capabilities(self) -> frozenset[str]:
        return self._capabilities

    def history(self) -> LakeHistory:
        return self._history

    def node(self) -> NodeInfo:
        return NodeInfo(
            tcp_address="",
            http_address="",
            version=full_version(),
            max_msg_size=self._options.max_msg_size,
            max_defer_ms=self._options.max_req_timeout_ms,
            capabilities=self.capabilities,
        )

    # Figures.

    def snapshot(self) -> EngineSnapshot | None:
        """None: there is no engine."""
        return None

    def exact(self, topic: str, channel: str = "") -> EngineSnapshot:
        """The cluster's newest figures: at this moment no node is read."""
        newest = self._newest()
        if newest is None:
            raise EngineUnavailableError(NO_FIGURES)
        topics = [one for one in newest.topics if one.topic_name == topic]
        if channel:
            topics = [
                replace(one, channels=tuple(each for each in one.channels if each.channel_name == channel))
                for one in topics
            ]
        return replace(newest, topics=tuple(topics))

    def watch(self, topic: str, channel: str) -> None:
        """Nothing: `Cluster.watch` has the nodes read."""

    def connections(self) -> Connections:
        """None: those of the nodes come from the cluster."""
        return Connections()

    # Acts.

    def act(self, action: str, topic: str, channel: str = "", asker: Asker = NO_AUTHOR, **details: object) -> ActResult:
        name = f"{topic}/{channel}" if channel else topic
        return ActResult(FAILED, f"Nothing was done to {name}. {no_engine(action.replace('_', ' '))}", "NO_ENGINE")

    def acts(self, orders: Sequence[ActOrder]) -> list[ActResult]:
        return [self.act(one.action, one.topic, one.channel, one.asker, **one.details) for one in orders]

    def act_beside(self, action: str, topic: str, channel: str, asker: Asker, do: Callable[[], ActResult]) -> ActResult:
        return do()

    # No engine notes the acts, so that nothing is compared.

    def mark(self, topic: str, channel: str = "") -> str:
        return ""

    def changes_since(self, action: str, asker: Asker) -> Mapping[str, str]:
        return {}

    def changed_since(self, action: str, topic: str, channel: str, asker: Asker, name: str = "") -> str:
        return ""

    def deletion_of(self, topic: str, channel: str = "") -> Deletion | None:
        return None
