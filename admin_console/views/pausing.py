"""Pausing and resuming topics and channels: their reason and end, the messages that a resume releases, and its ramp."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isnan
from typing import Any

from django.conf import settings
from django.urls import reverse

from admin_console.diagnosis import pause_words
from admin_console.gateway.gateway import ACTS, ActResult, ChannelStats, Pause, TopicStats, parse_duration_ms
from admin_console.gateway.history import HistoryUnreadableError
from admin_console.gateway.sentences import NAMED_MAX, and_list, counted, message_counts, some_of
from admin_console.history.ranges import HOUR_S, Range
from admin_console.history.series import channel_history
from admin_console.hub.hub import get_hub
from admin_console.views.act_page import CHANNEL, TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError
from admin_console.views.question import Choice, Field, Question, reason_field
from admin_console.vocabulary import units
from admin_console.vocabulary.times import time_of

REASON_CHARACTERS_MAX = 200
_AS_IT_IS, _NO_END, _UNTIL = "as it is", "none", "until"
_ENDS = (("15m", "after 15 minutes"), ("1h", "after 1 hour"), ("4h", "after 4 hours"))
_RAMPS = (("", "at once"), ("1m", "slowly first, for 1 minute"), ("5m", "for 5 minutes"), ("15m", "for 15 minutes"))
_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


class _PauseAct(ActPage):
    """A small form beside the page: neither act loses messages, and each reverts the other."""

    def _stats(self) -> TopicStats | ChannelStats:
        return self.channel_stats() if self.channel else self.topic_stats()

    def _small(self, title: str, consequences: list[str], fields: list[Field]) -> Question:
        return replace(self.pose(title, consequences, fields), is_small=True)


class PausePage(_PauseAct):
    """Pause, or give a pause that is there another reason or end."""

    routes = {"pause_topic": f"{TOPIC}/~pause/", "pause_channel": f"{CHANNEL}/~pause/"}

    _is_new = False  # done, and it was not paused before

    def question(self) -> Question:
        one = self._stats()
        pause = one.pause if one.paused else None
        running = self._running() if one.paused else []
        consequences = self._about(one) if running or not one.paused else []
        consequences += self._about_pause(one, is_on_some=bool(running)) if one.paused else []
        title = f"Change the pause of {self.name}" if one.paused and not running else f"Pause {self.name}"
        consequences += self._about_ends()
        end = self._end_field(one.paused, pause, is_on_some=bool(running))
        small = self._small(title, consequences, [end, self._until_field(pause)])
        reason = self.request.POST.get("reason", pause.reason if pause else "")
        if self.is_anew and pause is not None:
            reason = reason or pause.reason  # an untouched form takes nothing of another's pause away
        return replace(small, fields=[_reason_field(reason), *small.fields[:-1]])

    def _about(self, one: TopicStats | ChannelStats) -> list[str]:
        if isinstance(one, TopicStats):
            channels = f"none of its {len(one.channels):,} channels" if len(one.channels) > 1 else "no channel"
            return [
                f"New messages will stay at the topic and reach {channels} until it is resumed.",
                "Its channels still deliver their messages.",
            ]
        held = message_counts(one.depth, one.in_flight_count, one.deferred_count)
        consumers = "consumer" if one.client_count == 1 else counted(one.client_count, "consumer")
        return [
            f"Its {consumers} will get no further messages until it is resumed.",
            f"It holds {held} now." if held else "It is empty now.",
            "Messages in flight can still be finished.",
        ]

    def _about_ends(self) -> list[str]:
        """Of nodes that have no ends of pauses."""
        names = [one.name for one in self.nodes.chosen if not one.node.ends_pauses] if self.nodes is not None else []
        if not names:
            return []
        resumes = f"this console resumes the {'channel' if self.channel else 'topic'}"
        late = "if it does not run then, at its next start"
        return [f"{some_of(names)} can't end a pause: at its end {resumes}; {late}."]

    def _running(self) -> list[str]:
        """The nodes of the question at which it is not paused, where it is at others."""
        chosen = self.nodes.chosen if self.nodes is not None else []
        return [holder.name for holder in chosen if not holder.stats(self.channel).paused]

    def _about_pause(self, one: TopicStats | ChannelStats, *, is_on_some: bool) -> list[str]:
        now_ms = units.now_ms()
        if is_on_some:
            assert self.nodes is not None
            paused = [holder.name for holder in self.nodes.chosen if holder.stats(self.channel).paused]
            where = and_list(paused) if len(paused) <= NAMED_MAX else counted(len(paused), "node")
            return [f"It is paused on {where} already: author and start of that pause stay the same."]
        end = pause_words.left(one.pause, now_ms) or "it has no end"
        return [f"Paused{pause_words.since(one.pause, now_ms)}; {end}.", "Its author and its start stay the same."]

    def _end_field(self, is_paused: bool, pause: Pause | None, *, is_on_some: bool) -> Field:
        chosen = self.request.POST.get("for", _AS_IT_IS if is_paused else _NO_END)
        if self.is_anew and is_paused and chosen == _NO_END:
            chosen = _AS_IT_IS
        as_it_is = "as it is, and without an end where it begins now" if is_on_some else "as it is"
        choices = [(_AS_IT_IS, as_it_is)] if is_paused else []
        choices += [(_NO_END, "when a user presses Resume"), *_ENDS, (_UNTIL, "at the time below")]
        return Field(
            "for",
            "The pause ends",
            kind="select",
            choices=tuple(Choice(value, label, value == chosen) for value, label in choices),
        )

    def _until_field(self, pause: Pause | None) -> Field:
        until_ms = (pause.until_ms if pause else 0) or units.now_ms() + 3_600_000
        return Field(
            "until",
            "Time",
            kind="time",
            value=self.request.POST.get("until", units.moment(until_ms // 60_000 * 60_000)),
            help="Only for “at the time below”.",
        )

    def details(self) -> dict[str, Any]:
        posted, complaints = self.request.POST, []
        details: dict[str, Any] = {"by": self.request.user.get_username()}
        reason, end, until = posted.get("reason"), posted.get("for", ""), posted.get("until", "").strip()
        if reason is not None and (reason.strip() or not self.is_confirmed):
            details["reason"] = reason.strip()  # of several at once, none given leaves each its own
        if settings.CONSOLE.pause_reason_required and not details.get("reason"):
            complaints.append("Reason: this server requires one for each pause. Nothing was done.")
        if len(details.get("reason", "")) > REASON_CHARACTERS_MAX:
            complaints.append(f"Reason: it has {len(details['reason'])} characters, at most {REASON_CHARACTERS_MAX}.")
        if end == _UNTIL or (until and not end):
            try:
                details["until_ms"] = _moment_ms(until, datetime.now(UTC))
            except ValueError as exc:
                complaints.append(f"Time: {exc}")
        elif end == _NO_END:
            details["for_ms"] = 0
        elif end not in ("", _AS_IT_IS):
            try:
                details["for_ms"] = parse_duration_ms(end)
            except ValueError as exc:
                complaints.append(f"The pause ends: {exc}.")
        if complaints:
            raise ComplaintError(*complaints)
        return details

    def note(self, result: ActResult) -> None:
        self._is_new = result.created

    def undo_url(self) -> str:
        # Resume would not revert a change of a pause.
        url = reverse(ACTS[self.action].undo, kwargs=self.kwargs)
        if self.nodes is None:
            return url if self._is_new else ""
        return url if self.undo_nodes() else ""

    def undo_nodes(self) -> list[str]:
        return [one.node for one in self.nodes.results if one.result.created] if self.nodes is not None else []


class ResumePage(_PauseAct):
    """Resume a paused topic or channel; end the ramp of a channel that delivers slowly."""

    routes = {"unpause_topic": f"{TOPIC}/~unpause/", "unpause_channel": f"{CHANNEL}/~unpause/"}

    def question(self) -> Question:
        one = self._stats()
        if isinstance(one, ChannelStats) and not one.paused and one.ramp is not None:
            consequences = [
                pause_words.ramp(one.ramp, units.now_ms()),
                f"All of {_messages(one.depth)} may go at once.",
            ]
            return self._small(f"Resume {self.name} fully now", consequences, [])
        if not one.paused:
            idle = self._small(f"Resume {self.name}", ["It is not paused: there is nothing to resume."], [])
            return replace(idle, fields=[], button="")
        return self._small(f"Resume {self.name}", self._releases(one), [self._ramp_field()])

    def _releases(self, one: TopicStats | ChannelStats) -> list[str]:
        grown = [text] if (text := pause_words.grown(one.pause, one.depth)) else []
        if isinstance(one, TopicStats):
            to = counted(len(one.channels), "channel")
            return [f"It releases {_messages(one.depth)} to {to}.", *grown]
        return [f"It releases {_messages(one.depth)}{self._time_to_drain(one)}.", _ready(one), *grown]

    def _time_to_drain(self, one: ChannelStats) -> str:
        """`, about 3 min to drain at the rate of the hour before the pause (68/s)`; "" where the rate is unknown."""
        rate_s = self._rate_before(one) if one.depth else None
        if not rate_s:
            return ""
        took = units.about(one.depth / rate_s)
        return f", {took} to drain at the rate of the hour before the pause ({units.rate(rate_s)})"

    def _rate_before(self, one: ChannelStats) -> float | None:
        """Messages finished a second in the hour before the pause; None when it is unknown."""
        end_s = (one.pause.since_ms if one.pause and one.pause.since_ms else units.now_ms()) // 1000 // 60 * 60 + 60
        span = Range("", end_s - HOUR_S, end_s, False)
        try:
            found = channel_history(self.gateway.history(), get_hub().live, self.topic, self.channel, span)
        except HistoryUnreadableError:
            return None
        rates = [float(value) for value in found.columns["finished"] if not isnan(value)]
        return sum(rates) / len(rates) if rates else None

    def _ramp_field(self) -> Field:
        chosen = self.request.POST.get("ramp", "")
        return Field(
            "ramp",
            "It delivers",
            kind="select",
            choices=tuple(Choice(value, label, value == chosen) for value, label in _RAMPS),
        )

    def details(self) -> dict[str, Any]:
        ramp = self.request.POST.get("ramp", "")
        if not ramp:
            return {}
        try:
            return {"ramp_ms": parse_duration_ms(ramp)}
        except ValueError as exc:
            raise ComplaintError(f"It delivers: {exc}. Nothing was done.") from exc


def _reason_field(value: str) -> Field:
    is_required = settings.CONSOLE.pause_reason_required
    text = "Shown to every user while it is paused, and stored in the audit list."
    return replace(reason_field(value), help=text if is_required else f"Optional. {text}", is_required=is_required)


def _messages(depth: int) -> str:
    return counted(depth, "message")


def _ready(one: ChannelStats) -> str:
    ready = sum(1 for client in one.clients or () if client.ready_count)
    if not one.client_count:
        return "No consumer is connected: they wait for one."
    are = "is" if one.client_count == 1 else "are"
    return f"{ready:,} of {counted(one.client_count, 'consumer')} {are} ready (RDY {units.number(one.ready_count)})."


def _moment_ms(text: str, now: datetime) -> int:
    """Unix milliseconds of `14:30`, the next one, or of `2026-03-01 14:30`, in UTC or with its zone. Raises ValueError,
    a sentence."""
    if clock := _CLOCK.fullmatch(text):
        found = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return int((found if found > now else found + timedelta(days=1)).timestamp() * 1000)
    try:
        found = time_of(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time such as 14:30 or 2026-03-01 14:30. Nothing was done.") from None
    if found <= now:
        raise ValueError(
            f"{found:%Y-%m-%d %H:%M} UTC has passed: it is {now:%Y-%m-%d %H:%M} UTC now. Nothing was done."
        )
    return int(found.timestamp() * 1000)
