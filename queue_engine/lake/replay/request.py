"""The request of a replay: which archived messages go where. Without pyarrow, for pages."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queue_engine.vocabulary.errors import PipelineError
from queue_engine.vocabulary.names import is_valid_name

if TYPE_CHECKING:
    from queue_engine.lake.expression.expressions import Expression

RATE_MAX = 10_000_000
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Which archived messages of `topic` go to the topic `target`.

    server, number, id_base: which of the topics of that name. server: the identity of the data directory, "" for this
    one's and, where nothing of it is archived, any; number and id_base: None for the newest. Times: Unix ms, by publish
    time, end_time_ms excluded; None for no bound. key: "" for all messages, else only those with that key. expression:
    "" for all messages, else as `expressions.py` reads it. rate_per_s: messages a second, None for no limit.
    """

    replay_id: str
    topic: str
    target: str
    number: int | None = None
    id_base: int | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    key: str = ""
    expression: str = ""
    rate_per_s: int | None = None
    server: str = ""

    def check(self) -> "Expression | None":
        """Returns the parsed expression; None without one. Raises ExpressionError, and PipelineError for any other
        field that is not valid."""
        check_id(self.replay_id)
        for name in (self.topic, self.target):
            if not isinstance(name, str) or not is_valid_name(name):
                raise PipelineError(f"{str(name)[:80]!r} is not a topic's name")
        for bound in (self.start_time_ms, self.end_time_ms, self.number, self.id_base):
            if bound is not None and (not isinstance(bound, int) or not 0 <= bound < 1 << 63):
                raise PipelineError(f"{str(bound)[:80]!r} is neither a time nor a number from 0 to 2^63")
        start_ms, end_ms = self.start_time_ms, self.end_time_ms
        if start_ms is not None and end_ms is not None and start_ms >= end_ms:
            raise PipelineError(f"the time range is empty: it begins at {start_ms} and ends at {end_ms}")
        check_rate(self.rate_per_s)
        if not all(isinstance(one, str) for one in (self.key, self.expression, self.server)):
            raise PipelineError("key, expression and server must be texts")
        if not self.expression:
            return None
        from queue_engine.lake.expression.expressions import parse_expression  # here, since it needs sqlglot

        return parse_expression(self.expression)


def check_rate(rate_per_s: int | None) -> None:
    """Raises PipelineError for a rate that is not valid."""
    if rate_per_s is not None and (not isinstance(rate_per_s, int) or not 1 <= rate_per_s <= RATE_MAX):
        raise PipelineError(f"rate_per_s={str(rate_per_s)[:40]} is not a whole number from 1 to {RATE_MAX}")


def check_id(replay_id: str) -> None:
    """Raises PipelineError for an id that is not valid."""
    if not isinstance(replay_id, str) or not _ID.fullmatch(replay_id):
        raise PipelineError(f"{str(replay_id)[:80]!r} is not a replay's id: 1 to 64 of A-Za-z0-9_-")
