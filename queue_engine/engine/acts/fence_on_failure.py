"""The decorator of acts: an act that fails unexpectedly fences its topic or channel, which may be half changed."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.topic import Topic
from queue_engine.vocabulary.errors import PenstockError
from queue_engine.vocabulary.ticket import Ticket

ActT = TypeVar("ActT", bound=Callable[..., Any])


class HasTopics(Protocol):
    @property
    def topics(self) -> Mapping[str, Topic]: ...


def fence_on_failure(act: ActT) -> ActT:
    """Decorates methods of the engine whose first argument names a topic, and whose second, if it is `channel`, a
    channel.

    A PenstockError passes. Any other error fences the channel or topic; FencedError is raised, or the act's ticket is
    rejected with it. Without such a channel or topic it is the error itself.
    """
    names = list(inspect.signature(act).parameters)[1:3]
    doing = f"the act {act.__name__.replace('_', ' ')}"

    @functools.wraps(act)
    def guarded(engine: HasTopics, *args: Any, **kwargs: Any) -> Any:
        def concerned() -> Channel | Topic | None:
            named = dict(zip(names, args, strict=False)) | kwargs
            topic = engine.topics.get(named.get("topic", ""))
            channel = topic.channels.get(named["channel"]) if topic is not None and "channel" in names else None
            return channel or topic

        def refused(error: Exception) -> Exception:
            one = concerned()
            return error if isinstance(error, PenstockError) or one is None else one.stop(doing, error)

        try:
            result = act(engine, *args, **kwargs)
        except PenstockError:
            raise
        except Exception as exc:
            raise refused(exc) from exc
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Ticket)):
            return result
        if result[1].done and (result[1].error is None or isinstance(result[1].error, PenstockError)):
            return result
        ticket = Ticket()
        result[1].when_done(lambda done: ticket.reject(refused(done.error)) if done.error else ticket.resolve())
        return result[0], ticket

    return guarded  # type: ignore[return-value]  # the same arguments and results
