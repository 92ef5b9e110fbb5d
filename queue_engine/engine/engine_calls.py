"""The engine's acts and reads for other threads, each typed as the method that does it.

The console calls them on its own threads; the method runs on the engine's, and the future has its result. No object of
the engine's own crosses: a method's result is frozen or made for the caller. A new act or read is one line here;
mypy checks its callers against the method's parameters and result.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from queue_engine.engine.acts.recent_acts import Order
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.ticket import Ticket

P = ParamSpec("P")
R = TypeVar("R")


class RunOnEngine(Protocol):
    """Runs a call on the engine's thread. A Ticket, alone or as the second of a pair, is waited for first."""

    def __call__(self, call: Callable[[Engine], object], /) -> "Future[Any]": ...


class _Call(Generic[P, R]):
    def __init__(self, of: Callable[[Engine], Callable[P, Any]]) -> None:
        self.on = of
        """The method of an engine, for code on its thread."""

    @overload
    def __get__(self, calls: None, owner: type) -> Self: ...
    @overload
    def __get__(self, calls: "EngineCalls", owner: type) -> "Callable[P, Future[R]]": ...
    def __get__(self, calls: "EngineCalls | None", owner: type) -> "Self | Callable[P, Future[R]]":
        return self if calls is None else partial(self._submit, calls)

    def _submit(self, calls: "EngineCalls", *args: P.args, **kwargs: P.kwargs) -> "Future[R]":
        return calls.run(lambda engine: self.on(engine)(*args, **kwargs))


class Read(_Call[P, R]):
    """A call whose result is at hand when the method returns."""

    def __init__(self, of: Callable[[Engine], Callable[P, R]]) -> None:
        super().__init__(of)


class Write(_Call[P, None]):
    """Done when it is durable; without a result."""

    def __init__(self, of: Callable[[Engine], Callable[P, Ticket]]) -> None:
        super().__init__(of)


class Act(_Call[P, R]):
    """Done when it is durable; its result is the value that the method returns beside the ticket."""

    def __init__(self, of: Callable[[Engine], Callable[P, tuple[R, Ticket]]]) -> None:
        super().__init__(of)


class EngineCalls:
    """The calls for other threads. Each returns a future: its exception is the method's, or ClosedError where the
    engine does not run; cancelling it before the method begins drops the call."""

    def __init__(self, run: RunOnEngine) -> None:
        self.run = run

    # Acts, by the names of ENGINE_ACTS.

    create_topic = Act(lambda engine: engine.acts.create_topic)
    create_channel = Act(lambda engine: engine.acts.create_channel)
    publish = Write(lambda engine: engine.publish)
    pause_topic = Act(lambda engine: engine.acts.pause_topic)
    unpause_topic = Act(lambda engine: engine.acts.unpause_topic)
    pause_channel = Act(lambda engine: engine.acts.pause_channel)
    unpause_channel = Act(lambda engine: engine.acts.unpause_channel)
    retry_topic = Act(lambda engine: engine.acts.retry_topic)
    retry_channel = Act(lambda engine: engine.acts.retry_channel)
    requeue_channel = Act(lambda engine: engine.acts.requeue_channel)
    release_deferred = Act(lambda engine: engine.acts.release_deferred)
    rewind_channel = Act(lambda engine: engine.acts.rewind_channel)
    empty_topic = Act(lambda engine: engine.acts.empty_topic)
    empty_channel = Act(lambda engine: engine.acts.empty_channel)
    delete_topic = Act(lambda engine: engine.acts.delete_topic)
    delete_channel = Act(lambda engine: engine.acts.delete_channel)
    set_max_attempts = Act(lambda engine: engine.quarantine.set_max_attempts)
    redrive_channel = Act(lambda engine: engine.quarantine.redrive_channel)
    cancel_redrive = Act(lambda engine: engine.quarantine.cancel_redrive)
    finish_messages = Act(lambda engine: engine.message_acts.finish_messages)
    requeue_messages = Act(lambda engine: engine.message_acts.requeue_messages)
    release_messages = Act(lambda engine: engine.message_acts.release_messages)
    quarantine_messages = Act(lambda engine: engine.message_acts.quarantine_messages)
    redrive_messages = Act(lambda engine: engine.message_acts.redrive_messages)
    publish_again = Act(lambda engine: engine.message_acts.publish_again)
    restore_trash = Act(lambda engine: engine.trash.restore_trash)
    delete_trash = Act(lambda engine: engine.trash.delete_trash)
    create_cursor = Act(lambda engine: engine.cursors.create)
    move_cursor = Act(lambda engine: engine.cursors.move)
    delete_cursor = Act(lambda engine: engine.cursors.delete)
    # The archive of a topic is the cursor of that name.
    archive_on = Act(lambda engine: engine.cursors.create)
    archive_off = Act(lambda engine: engine.cursors.delete)
    archive_again = Act(lambda engine: engine.cursors.restart)

    # Reads.

    stats = Read(lambda engine: engine.stats.now)
    in_flight = Read(lambda engine: engine.stats.in_flight)
    trash_page = Read(lambda engine: engine.trash.page)
    trash_entry = Read(lambda engine: engine.trash.one)
    freed_by = Read(lambda engine: engine.trash.freed_by)
    peek_channel = Read(lambda engine: engine.log.peek_channel)
    read_messages = Read(lambda engine: engine.log.read_messages)
    find_key = Read(lambda engine: engine.log.find_key)
    seek_preview = Read(lambda engine: engine.log.seek_preview)
    message_rows = Read(lambda engine: engine.messages.list)
    message = Read(lambda engine: engine.messages.one)
    cursors = Read(lambda engine: engine.cursors.all)
    start_search = Read(lambda engine: engine.message_search.start)
    search_state = Read(lambda engine: engine.message_search.state)
    cancel_search = Read(lambda engine: engine.message_search.cancel)

    # Of other nodes.

    append_sample = Read(lambda engine: engine.append_sample)

    # The latest acts.

    mark = Read(lambda engine: engine.recent_acts.mark)
    check = Read(lambda engine: engine.recent_acts.check)
    done_since = Read(lambda engine: engine.recent_acts.done_since)
    deletion_of = Read(lambda engine: engine.recent_acts.deletion_of)
    begin = Read(lambda engine: engine.recent_acts.begin)
    end = Read(lambda engine: engine.recent_acts.end)

    def act(self, order: Order, names: Sequence[str], details: Mapping[str, Any]) -> "Future[Any]":
        """Do the act that `order` names, unless the state that its question showed has changed (`recent_acts.py`).
        details: the further parameters of its method. The result is an Outcome, or None of a publish."""
        method = ENGINE_ACTS[order.record.action].on
        return self.run(lambda engine: engine.recent_acts.do(order, partial(method(engine), *names, **details)))


ENGINE_ACTS: Mapping[str, Act[..., Any] | Write[...]] = {
    name: call for name, call in vars(EngineCalls).items() if isinstance(call, Act | Write)
}
