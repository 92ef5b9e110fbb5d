"""The engine in this process: commands go to its thread with a deadline, figures come as snapshots."""

import logging
import os
import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from admin_console.cluster.reading.members import Identity
from admin_console.gateway.act_sentences import sentence_of
from admin_console.gateway.changed import changed, code_of, deletion, line_of, order_of
from admin_console.gateway.gateway import (
    DONE,
    FAILED,
    NO_AUTHOR,
    UNKNOWN,
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
    OneMessage,
    ReadRefusedError,
    SearchState,
    SeekPreview,
    Target,
    TrashPage,
    TrashStats,
)
from admin_console.gateway.history import LakeHistory
from admin_console.gateway.sentences import act_in_words, outcome_counts
from admin_console.pacing.pace import PACE
from queue_engine.delivery.stats import Outcome
from queue_engine.engine.acts.recent_acts import StateChangedError
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.acts.table import ACTS, USES, rivals_of
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.errors import ClosedError, OutcomeUnknownError, PenstockError, RequestError, StorageError
from queue_engine.vocabulary.options.options import Options

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")

# Longer than the engine needs for one command on a working disk; shorter than users wait.
DEADLINE_S = 5.0
# An engine in this process has all capabilities.
CAPABILITIES = frozenset({*ACTS, *USES})


class EmbeddedGateway:
    """A Gateway on an EngineRunner of this process."""

    capabilities = CAPABILITIES

    def __init__(self, runner: EngineRunner, options: Options, *, deadline_s: float = DEADLINE_S) -> None:
        self._runner = runner
        self._calls = runner.calls
        self._options = options
        self._deadline_s = deadline_s
        self._history = LakeHistory(os.path.join(options.data_path, "pipeline"), options.effective_broadcast_address)

    def history(self) -> LakeHistory:
        return self._history

    def snapshot(self) -> EngineSnapshot | None:
        return self._runner.snapshot

    def exact(self, topic: str, channel: str = "") -> EngineSnapshot:
        return self._wait_for(self._calls.stats(topic=topic, channel=channel, include_clients=bool(channel)))

    def watch(self, topic: str, channel: str) -> None:
        self._runner.watch(topic, channel)

    def connections(self) -> Connections:
        return self._wait_for(self._runner.connections())

    def in_flight(self, topic: str, channel: str, limit: int = 100) -> tuple[InFlightStats, ...]:
        try:
            found = self._wait_for(self._calls.in_flight(topic, channel, limit=limit))
        except RequestError:
            return ()
        return tuple(found)

    def trash(self, count_max: int, *, before: tuple[int, int] | None = None) -> TrashPage:
        return self._wait_for(self._calls.trash_page(count_max, before=before))

    def freed_by(
        self, emptied: Mapping[str, Collection[str]], *, own_too: bool, channels_too: bool, readers_too: bool
    ) -> FreedBytes:
        return self._wait_for(
            self._calls.freed_by(emptied, own_too=own_too, channels_too=channels_too, readers_too=readers_too)
        )

    def trash_entry(self, trash: int, topic: str) -> TrashStats | None:
        try:
            return self._wait_for(self._calls.trash_entry(trash, topic))
        except RequestError:
            return None

    def messages(self, topic: str, channel: str, target: Target | None, count_max: int) -> MessagePage:
        try:
            if target is None:
                return self._wait_for(self._calls.peek_channel(topic, channel, count_max))
            return self._wait_for(self._calls.read_messages(topic, target, count_max))
        except RequestError as exc:
            raise ReadRefusedError(_sentence(exc, topic, "read of")) from exc

    def find_key(self, topic: str, key: bytes, count_max: int, *, before: int | None = None) -> KeyPage:
        return self._read(topic, self._calls.find_key(topic, key, count_max, before=before))

    def message_rows(self, topic: str, channel: str, query: MessageQuery) -> MessageRows:
        return self._read(topic, self._calls.message_rows(topic, channel, query))

    def message(self, topic: str, channel: str, *, message_id: str = "", offset: int | None = None) -> OneMessage:
        return self._read(topic, self._calls.message(topic, channel, message_id=message_id, offset=offset))

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
        client = ClientKey((f"user {user}",)) if user else None
        start = self._calls.start_search
        started = start(
            topic, channel, text, state=state, first_offset=first_offset, end_offset=end_offset, client=client
        )
        return self._read(topic, started)

    def search_state(self, search_id: str) -> SearchState:
        return self._read(search_id, self._calls.search_state(search_id))

    def cancel_search(self, search_id: str) -> SearchState:
        return self._read(search_id, self._calls.cancel_search(search_id))

    def seek_preview(self, topic: str, channel: str, target: Target) -> SeekPreview:
        try:
            return self._wait_for(self._calls.seek_preview(topic, channel, target))
        except RequestError as exc:
            raise ReadRefusedError(_sentence(exc, topic)) from exc

    def node(self) -> NodeInfo:
        snapshot = self._runner.snapshot
        return NodeInfo(
            tcp_address=_joined(self._runner.tcp_address),
            http_address=_joined(self._runner.http_address),
            version=snapshot.version if snapshot else "",
            max_msg_size=self._options.max_msg_size,
            max_defer_ms=self._options.max_req_timeout_ms,
            storage=self._options.storage,
            sync=self._options.sync,
            trash_age_ms=self._options.trash_age_ms,
            capabilities=self.capabilities,
            broadcast_address=self._options.effective_broadcast_address,
        )

    def mark(self, topic: str, channel: str = "") -> str:
        return self._wait_for(self._calls.mark(topic, channel))

    def changed_since(self, action: str, topic: str, channel: str, asker: Asker, name: str = "") -> str:
        try:
            self._wait_for(self._calls.check(order_of(action, topic, channel, asker)))
        except StateChangedError as exc:
            return changed(exc, f"{topic}/{channel}" if channel else topic or asker.part or name, asker)
        return ""

    def changes_since(self, action: str, asker: Asker) -> Mapping[str, str]:
        try:
            acts = self._wait_for(self._calls.done_since(asker.shown, rivals_of(action)))
        except StateChangedError as exc:
            return {"": changed(exc, "Something of it", asker)}
        return {
            f"{act.scope.topic}/{act.scope.channel}".removesuffix("/"): line_of(act, asker.by) for act in reversed(acts)
        }

    def deletion_of(self, topic: str, channel: str = "") -> Deletion | None:
        found = self._wait_for(self._calls.deletion_of(topic, channel))
        return None if found is None else deletion(found)

    def act_beside(self, action: str, topic: str, channel: str, asker: Asker, do: Callable[[], ActResult]) -> ActResult:
        name = topic or asker.part
        try:
            note = self._wait_for(self._calls.begin(order_of(action, topic, channel, asker)))
        except StateChangedError as exc:
            return ActResult(FAILED, f"{changed(exc, name, asker)} Nothing was done.", code_of(exc, channel))
        except EngineUnavailableError as exc:
            return ActResult(FAILED, f"Nothing was done to {name}: {exc}", "ENGINE_BUSY")
        result: ActResult | None = None
        try:
            result = do()
        finally:
            is_done = result is not None and result.verdict != FAILED and not result.already
            self._calls.end(note, result.message if result is not None and is_done else "")
        return result

    def act(self, action: str, topic: str, channel: str = "", asker: Asker = NO_AUTHOR, **details: Any) -> ActResult:
        return self.acts([ActOrder(action, topic, channel, asker, details)])[0]

    def acts(self, orders: Sequence[ActOrder]) -> list[ActResult]:
        # Each is a command of its own: between two of them the engine serves its clients.
        futures = [self._submitted(order) for order in orders]
        gives_up_s = time.monotonic() + self._deadline_s
        return [self._result_of(order, future, gives_up_s) for order, future in zip(orders, futures, strict=True)]

    def _submitted(self, order: ActOrder) -> "Future[Any]":
        places = (order.topic, order.channel) if order.channel else (order.topic,)
        compared = order_of(order.action, order.topic, order.channel, order.asker, order.details)
        return self._calls.act(compared, places, order.details)

    def _result_of(self, order: ActOrder, future: "Future[Any]", gives_up_s: float) -> ActResult:
        action, topic, channel, asker, details = order.action, order.topic, order.channel, order.asker, order.details
        name = f"{topic}/{channel}" if channel else topic
        try:
            answer = self._wait(future, gives_up_s - time.monotonic())
        except StateChangedError as exc:
            return ActResult(FAILED, f"{changed(exc, name, asker)} Nothing was done.", code_of(exc, channel))
        except _DroppedError:
            return ActResult(
                FAILED,
                f"Nothing was done to {name}: the engine did not begin it within {self._deadline_s:g} seconds.",
                "ENGINE_BUSY",
            )
        except _BegunError:
            return ActResult(
                UNKNOWN,
                f"Outcome unknown: {action.replace('_', ' ')} of {name} had begun, and gave no answer within "
                f"{self._deadline_s:g} seconds. Look at the figures before trying again.",
                "OUTCOME_UNKNOWN",
            )
        except RequestError as exc:
            return ActResult(FAILED, _sentence(exc, name), exc.code)
        except ClosedError:
            return ActResult(FAILED, f"Nothing was done to {name}: the engine is stopping.", "EXITING")
        except OutcomeUnknownError as exc:
            sentence = f"{act_in_words(action)} of {name}: {exc}."
            return ActResult(UNKNOWN, sentence, "OUTCOME_UNKNOWN")
        except StorageError as exc:
            return ActResult(FAILED, f"The disk refused it for {name}: {exc}.", "STORAGE_ERROR")
        except PenstockError as exc:
            return ActResult(FAILED, f"The engine refused it for {name}: {exc}.", "INTERNAL_ERROR")
        except Exception as exc:
            logger.exception("act failed action=%s topic=%s channel=%s", action, topic, channel)
            return ActResult(
                UNKNOWN,
                f"Outcome unknown: the engine failed at {name} ({type(exc).__name__}); its log has the details.",
                "INTERNAL_ERROR",
            )
        outcome = answer if isinstance(answer, Outcome) else Outcome()
        sentence = sentence_of(action, topic, channel, details, outcome)
        return ActResult(
            DONE,
            sentence,
            counts=outcome_counts(outcome),
            results=outcome.results,
            created=outcome.created,
            trash=outcome.trash,
        )

    def _read(self, name: str, future: "Future[_Result]") -> _Result:
        try:
            return self._wait_for(future)
        except RequestError as exc:
            raise ReadRefusedError(_sentence(exc, name, "read of")) from exc
        except StorageError as exc:
            raise ReadRefusedError(f"The disk refused it for {name}: {exc}.") from exc

    def _wait_for(self, future: "Future[_Result]") -> _Result:
        try:
            return self._wait(future)
        except (_DroppedError, _BegunError) as exc:
            raise EngineUnavailableError(f"The engine did not answer within {self._deadline_s:g} seconds.") from exc
        except ClosedError as exc:
            raise EngineUnavailableError("The engine is stopping.") from exc

    def _wait(self, future: "Future[_Result]", timeout_s: float | None = None) -> _Result:
        """timeout_s: the deadline, unless another is given."""
        try:
            if future.done():
                return future.result()
            with PACE.away():
                return future.result(self._deadline_s if timeout_s is None else max(timeout_s, 0))
        except CancelledError as exc:
            raise _DroppedError from exc
        except TimeoutError as exc:
            if future.done():
                raise  # the engine's own
            # A command that has not begun is cancelled; one that has begun can't be.
            if future.cancel():
                raise _DroppedError from exc
            raise _BegunError from exc


class _DroppedError(Exception):
    """The deadline passed before the engine came to the command."""


class _BegunError(Exception):
    """The deadline passed while the command was at work."""


def _sentence(error: RequestError, name: str, done: str = "done to") -> str:
    text = str(error).removeprefix(error.code).strip(" :")
    return f"Nothing was {done} {name}: {text or error.code.replace('_', ' ').lower()}."


def _joined(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def identity_of(runner: EngineRunner, options: Options) -> Identity | None:
    """What the engine's `/info` says of it; None before its first figures."""
    snapshot, listeners = runner.snapshot, runner.listeners
    if snapshot is None:
        return None
    return Identity(
        socket.gethostname(),
        options.effective_broadcast_address,
        listeners.tcp[1],
        listeners.http[1],
        snapshot.started_at_ns // NS_PER_S,
    )
