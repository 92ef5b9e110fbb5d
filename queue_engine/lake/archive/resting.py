"""Lets topics that failed rest, so that no other topic waits for them.

failed ──► rests 5 s, 10 s … 5 min ──► tried again ──► archived: forgotten
                    ▲                       │
                    └──── failed again ◄────┘
"""

from collections.abc import Collection
from dataclasses import dataclass

from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock

REST_FIRST_S = 5
REST_MAX_S = 300


@dataclass(slots=True)
class _Rest:
    sentence: str
    rest_s: int
    until_ns: int
    until_ms: int  # the same moment, Unix ms


class RestingTopics:
    """One thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rests: dict[str, _Rest] = {}

    def fail(self, topic: str, sentence: str) -> None:
        """Let a topic rest, twice as long as the last time. sentence: why it failed."""
        rest = self._rests.get(topic)
        rest_s = REST_FIRST_S if rest is None else min(2 * rest.rest_s, REST_MAX_S)
        until_ns = self._clock.monotonic_ns() + rest_s * NS_PER_S
        until_ms = (self._clock.time_ns() + rest_s * NS_PER_S) // NS_PER_MS
        self._rests[topic] = _Rest(sentence, rest_s, until_ns, until_ms)

    def forget(self, topics: Collection[str]) -> None:
        """These were archived, or are not to be archived any more."""
        for topic in topics:
            self._rests.pop(topic, None)

    def retain(self, topics: Collection[str]) -> None:
        """Forget all but these."""
        self.forget(self._rests.keys() - set(topics))

    @property
    def topics(self) -> set[str]:
        """All that failed, whether they rest still or are to be tried again."""
        return set(self._rests)

    def rested(self) -> set[str]:
        """Those whose rest is over: to be tried again."""
        now_ns = self._clock.monotonic_ns()
        return {topic for topic, rest in self._rests.items() if rest.until_ns <= now_ns}

    @property
    def note(self) -> tuple[str, int]:
        """The note for a page: (a sentence, when the next topic is tried again, Unix ms); ("", 0) when none rests.

        The sentence names the topic that is tried next."""
        if not self._rests:
            return "", 0
        topic, rest = min(self._rests.items(), key=lambda one: (one[1].until_ns, one[0]))
        more = len(self._rests) - 1
        others = "" if not more else " and another one" if more == 1 else f" and {more} others"
        verb = "are" if more else "is"
        return f"{topic}{others} {verb} not archived, and all other topics go on: {rest.sentence}", rest.until_ms
