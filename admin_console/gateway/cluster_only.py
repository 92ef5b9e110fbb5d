"""The gateway of a console without an engine: figures are those of the nodes, and acts are theirs.

A read that takes an engine of the console's own, such as of the trash, raises NoEngineError with a sentence: pages
leave it out.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

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
    FreedBytes,
    InFlightStats,
    KeyPage,
    MessagePage,
    MessageQuery,
    MessageRows,
    NodeInfo,
    NoEngineError,
    OneMessage,
    SearchState,
    SeekPreview,
    Target,
    TrashPage,
    TrashStats,
    full_version,
)
from admin_console.gateway.history import LakeHistory
from queue_engine.vocabulary.options.options import Options

NO_FIGURES = "No figures have come from the nodes yet."
# The acts of the console itself, at nsqlookupds, and of its pipeline's worker on the history. A topic is created at
# nsqlookupds and nodes.
CAPABILITIES = frozenset(
    {
        "create_topic",
        "register_name",
        "set_addresses",
        "start_job",
        "stop_job",
        "tombstone_producer",
        "unregister_channel",
        "unregister_topic",
    }
)


class ClusterOnlyGateway:
    """A Gateway without an engine. newest: returns the cluster's newest figures, None before the first."""

    capabilities = CAPABILITIES

    def __init__(self, options: Options, newest: Callable[[], EngineSnapshot | None]) -> None:
        self._options = options
        self._newest = newest
        self._history = LakeHistory(os.path.join(options.data_path, "pipeline"))

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
        return ActResult(FAILED, f"Nothing was done to {name}. {_no_engine(action.replace('_', ' '))}", "NO_ENGINE")

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

    # Of an engine alone.

    def in_flight(self, topic: str, channel: str, limit: int = 100) -> tuple[InFlightStats, ...]:
        _refuse("messages in flight")

    def trash(self, count_max: int, *, before: tuple[int, int] | None = None) -> TrashPage:
        _refuse("trash")

    def freed_by(
        self, emptied: Mapping[str, Collection[str]], *, own_too: bool, channels_too: bool, readers_too: bool
    ) -> FreedBytes:
        _refuse("log")

    def trash_entry(self, trash: int, topic: str) -> TrashStats | None:
        _refuse("trash")

    def messages(self, topic: str, channel: str, target: Target | None, count_max: int) -> MessagePage:
        _refuse("messages")

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage:
        _refuse("messages")

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        _refuse("messages")

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage:
        _refuse("messages")

    def start_search(
        self,
        topic: str,
        channel: str,
        text: str,
        *,
        state: str = "",
        first_offset: int | None = None,
        end_offset: int | None = None,
        user: str = "",
    ) -> SearchState:
        _refuse("messages")

    def search_state(self, search_id: str) -> SearchState:
        _refuse("messages")

    def cancel_search(self, search_id: str) -> SearchState:
        _refuse("messages")

    def seek_preview(self, topic: str, channel: str, target: Target) -> SeekPreview:
        _refuse("messages")


def _refuse(lacking: str) -> NoReturn:
    raise NoEngineError(_no_engine(lacking))


def _no_engine(lacking: str) -> str:
    return f"This console has no queue of its own, and so no {lacking}: it runs with --console-only."
