"""The topics of the archive, which a replay can read, as pages and commands name them; topics of one name are
distinguished."""

from collections.abc import Iterable
from dataclasses import dataclass

from admin_console.gateway.sentences import and_list, counted
from admin_console.vocabulary.units import moment
from queue_engine.lake.archive.summary import ArchivedIncarnation, ArchivedTopic
from queue_engine.lake.replay.listing import ReplayPlanSummary
from queue_engine.lake.replay.request import ReplayRequest

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SERVER_LENGTH = 8  # of its identity, which has 36 characters


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """One topic that was archived. which: the request's fields that name it, none for the newest of this server."""

    topic: str
    label: str
    which: dict[str, int | str]
    incarnation: ArchivedIncarnation | None = None

    @property
    def value(self) -> str:
        """Of a form: the name, with the topic's number and server where the archive has others of this name."""
        if not self.which:
            return self.topic
        return f"{self.topic}/{self.which['server']}/{self.which['number']}-{self.which['id_base']:x}"


def replay_sources(topics: Iterable[ArchivedTopic]) -> list[ReplaySource]:
    """The newest topic of each name, which a replay reads unless it names another; the others behind all of these."""
    newest, others = [], []
    for topic in topics:
        first = _newest(topic)
        count = f": {counted(first.rows, 'message')}" if first is not None else ""
        newest.append(ReplaySource(topic.topic, f"{topic.topic}{count}", {}, first))
        for one in topic.incarnations:
            if one == first or not one.rows:
                continue
            label = f"{topic.topic}, {_named(one, topic)}: {counted(one.rows, 'message')}"
            which: dict[str, int | str] = {"server": one.server, "number": one.number, "id_base": one.id_base}
            others.append(ReplaySource(topic.topic, label, which, one))
    return newest + others


def _newest(topic: ArchivedTopic) -> ArchivedIncarnation | None:
    own = (topic.server, topic.number, topic.id_base)
    return next((one for one in topic.incarnations if (one.server, one.number, one.id_base) == own), None)


def _named(one: ArchivedIncarnation, topic: ArchivedTopic) -> str:
    if one.server == topic.server:
        return f"an earlier incarnation, number {one.number}"
    return f"server {one.server[:_SERVER_LENGTH]}, number {one.number}"


def left_out_sentence(plan: ReplayPlanSummary) -> str:
    """A sentence: the replay leaves out the messages of `left_out`; "" without any."""
    rest = left_out(plan)
    is_one = sum(one.rows for one in plan.left_out) == 1
    return f"{rest} {'is' if is_one else 'are'} left out." if rest else ""


def left_out(plan: ReplayPlanSummary) -> str:
    """Messages that the archive has under the topic's name and a replay does not reach: `4,000 messages of two earlier
    incarnations`; "" for nothing."""
    source = plan.source
    if source is None or not plan.left_out:
        return ""
    own = [one for one in plan.left_out if one.server == source.server]
    earlier = [one for one in own if one.number < source.number]
    later = [one for one in own if one.number >= source.number]
    servers = {one.server for one in plan.left_out} - {source.server}
    parts = [
        f"{_messages(found)} of {_word(len(found))} {word} incarnation{'' if len(found) == 1 else 's'}"
        for found, word in ((earlier, "earlier"), (later, "later"))
        if found
    ]
    if servers:
        others = [one for one in plan.left_out if one.server != source.server]
        names = "another server" if len(servers) == 1 else f"{_word(len(servers))} other servers"
        parts.append(f"{_messages(others)} of {names}")
    return and_list(parts)


def request_words(request: ReplayRequest) -> str:
    """A whole request in one line: `orders to again; from 2026-03-01 14:00:00 UTC; expression …`."""
    which = f" (number {request.number} of server {request.server})" if request.number is not None else ""
    parts = [f"{request.topic}{which} to {request.target}"]
    parts += [f"from {moment(request.start_time_ms)} UTC"] if request.start_time_ms is not None else []
    parts += [f"before {moment(request.end_time_ms)} UTC"] if request.end_time_ms is not None else []
    parts += [f"key {request.key}"] if request.key else []
    parts += [f"at most {request.rate_per_s:,}/s"] if request.rate_per_s is not None else []
    parts += [f"expression {request.expression}"] if request.expression else []
    return "; ".join(parts)


def source_words(plan: ReplayPlanSummary) -> str:
    """Which topic of the name a replay reads: `number 3 of server 5e2f6c1e`; "" where an earlier version planned it."""
    if plan.source is None:
        return ""
    server = plan.source.server[:_SERVER_LENGTH]
    return f"number {plan.source.number}" + (f" of server {server}" if server else "")


def _word(count: int) -> str:
    return _WORDS[count] if count < len(_WORDS) else f"{count:,}"


def _messages(found: Iterable[ArchivedIncarnation]) -> str:
    return counted(sum(one.rows for one in found), "message")
