"""Each act's sentence about its result. The acts themselves are in the engine's table, `queue_engine/vocabulary/acts`.

Pages, the audit list and the lists of recent acts have the same sentence. An act of the pipeline's worker, on tokens or
on nsqlookupds makes its own, where it is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from admin_console.gateway.sentences import counted, ended_pause, given_up, message_counts, paused_until
from queue_engine.delivery.stats import Outcome
from queue_engine.vocabulary.options.durations import format_duration


@dataclass(frozen=True, slots=True)
class Done:
    """An act that was done: its object, the request's details, and the outcome."""

    topic: str
    channel: str
    details: Mapping[str, Any]
    outcome: Outcome

    @property
    def name(self) -> str:
        return f"{self.topic}/{self.channel}" if self.channel else self.topic

    @property
    def cursor(self) -> str:
        """The cursor's name; over HTTP it stands in the channel's place."""
        return str(self.details.get("cursor", self.channel))

    @property
    def given_up(self) -> str:
        """The messages that a deleted pipeline cursor had not read."""
        return given_up(self.outcome.depth, self.cursor)

    @property
    def messages(self) -> str:
        """Those that the act moved or removed, by their states: `6 messages (depth 3, 2 in flight, 1 deferred)`."""
        outcome = self.outcome
        return message_counts(outcome.depth, outcome.in_flight, outcome.deferred, outcome.quarantined) or "no messages"

    @property
    def left_alone(self) -> str:
        """`; 2 messages were left as they are: it is finished already`: those of the named messages that the act could
        not be done to, and the first one's reason."""
        left = [result for result in self.outcome.results if result.code]
        if not left:
            return ""
        were = "message was left as it is" if len(left) == 1 else "messages were left as they are"
        return f"; {len(left):,} {were}: {left[0].text}"

    @property
    def disconnected(self) -> str:
        return f", disconnected {counted(self.outcome.clients, 'consumer')}" if self.outcome.clients else ""


def _created(done: Done) -> str:
    return f"Created {done.name}." if done.outcome.created else f"{done.name} was there already; nothing was changed."


def _published(done: Done) -> str:
    size, defer_ms = sum(len(body) for body in done.details["bodies"]), done.details.get("defer_ms")
    later = f", to be delivered in {format_duration(defer_ms)}" if defer_ms else ""
    key = done.details.get("key", b"").decode(errors="replace")
    with_key = f" with key {key}" if key else ""
    return f"Published 1 message of {counted(size, 'byte')}{with_key} to {done.name}{later}."


def _changed_pause(done: Done) -> str:
    if not {"reason", "for_ms", "until_ms"} & done.details.keys():
        return f"{done.name} was paused already; nothing was changed."
    until = paused_until(done.details)
    return f"Changed the pause of {done.name}: it is paused{until or ' until it is resumed'}."


def _paused_topic(done: Done) -> str:
    if not done.outcome.created:
        return _changed_pause(done)
    until = paused_until(done.details)
    return f"Paused {done.name}{until}: its messages stay at the topic, {done.outcome.depth:,} so far."


def _paused_channel(done: Done) -> str:
    if not done.outcome.created:
        return _changed_pause(done)
    held = message_counts(done.outcome.depth, done.outcome.in_flight, done.outcome.deferred) or "no messages"
    until = paused_until(done.details)
    return f"Paused {done.name}{until}: its consumers get nothing until it is resumed. It holds {held} now."


def _resumed(done: Done) -> str:
    if done.outcome.already:
        return f"{done.name} was resumed already; nothing was changed."
    ramp_ms, ended = done.details.get("ramp_ms"), done.details.get("pause")
    slowly = f", slowly at first, for {format_duration(ramp_ms)}" if ramp_ms else ""
    depth = done.outcome.depth
    waited = f"its depth was {depth:,}" if done.channel else f"{counted(depth, 'message')} waited at the topic itself"
    text = f"Resumed {done.name}{slowly}: {waited}."
    return f"{text} {ended_pause(ended, was_down=done.details['was_down'])}" if ended is not None else text


def _retried_topic(done: Done) -> str:
    return f"{done.name} works again: it is accepting messages, and its own depth is {done.outcome.depth:,}."


def _retried_channel(done: Done) -> str:
    back = f", {done.outcome.in_flight:,} of it back from consumers" if done.outcome.in_flight else ""
    return f"{done.name} works again: its depth is {done.outcome.depth:,}{back}."


def _requeued(done: Done) -> str:
    return f"Requeued {counted(done.outcome.in_flight, 'message')} of {done.name}."


def _released(done: Done) -> str:
    return f"Released {counted(done.outcome.deferred, 'deferred message')} of {done.name}."


def _max_attempts_set(done: Done) -> str:
    most = done.details["max_attempts"]
    if done.outcome.already:
        return f"Max attempts of {done.name} {f'are {most:,}' if most else 'are off'} already; nothing was changed."
    if not most:
        return f"Switched the quarantine of {done.name} off: no message is quarantined any more."
    return f"Set max attempts of {done.name} to {most:,}: messages that fail so often are quarantined."


def _redriven(done: Done) -> str:
    count = done.outcome.quarantined
    if not count:
        return f"{done.name} has no quarantined message; nothing was changed."
    return f"Redriving {counted(count, 'message')} of {done.name} at {counted(done.details['rate'], 'message')}/s."


def _redrive_cancelled(done: Done) -> str:
    if not done.outcome.channels:
        return f"{done.name} is not being redriven; nothing was changed."
    count = done.outcome.quarantined
    left = f"{counted(count, 'message')} {'stays' if count == 1 else 'stay'}"
    return f"Cancelled the redrive of {done.name}: {left} quarantined."


def _switched_on(done: Done) -> str:
    to_archive = f"{counted(done.outcome.depth, 'message')} to archive"
    if done.outcome.created:
        return f"Switched the archive of {done.topic} on: {to_archive}."
    return f"The archive of {done.topic} was on already, with {to_archive}; nothing was changed."


def _switched_off(done: Done) -> str:
    return f"Switched the archive of {done.topic} off. It gave up {done.given_up}."


def _begun_again(done: Done) -> str:
    to_archive = f"{counted(done.outcome.depth, 'message')} to archive"
    return f"The archive of {done.topic} begins again, with {to_archive}."


def _rewound(done: Done) -> str:
    taken = f", {counted(done.outcome.in_flight, 'message')} taken from consumers" if done.outcome.in_flight else ""
    offset = done.details["target"].offset if "target" in done.details else None
    place = "" if offset is None else f" to offset {offset:,}"
    return f"Rewound {done.name}{place}: its depth is {done.outcome.depth:,} now{taken}."


def _emptied(done: Done) -> str:
    where = f" and its {counted(done.outcome.channels, 'channel')}" if done.details.get("channels_too") else ""
    return f"Emptied {done.name}{where}: removed {done.messages}."


def _deleted_topic(done: Done) -> str:
    channels = counted(done.outcome.channels, "channel")
    return f"Deleted {done.name} with {channels}: removed {done.messages}{done.disconnected}."


def _deleted_channel(done: Done) -> str:
    return f"Deleted {done.name}: removed {done.messages}{done.disconnected}."


def _restored(done: Done) -> str:
    outcome = done.outcome
    held = outcome.depth, outcome.in_flight, outcome.deferred, outcome.quarantined
    back = message_counts(*held) or "no messages"
    now = outcome.name or done.name
    restored = now if now.split("/")[0] == done.topic else f"{done.topic} as {now}"
    swapped = " The topic of that name went to the trash." if outcome.trash else ""
    return f"Restored {restored} from the trash: {back} came back.{swapped}"


def _of_trash(done: Done) -> str:
    return f"the trash entry of {done.outcome.name or done.name}"


def _deleted_trash(done: Done) -> str:
    return f"Deleted {_of_trash(done)} for good: {done.messages}."


def _expired_trash(done: Done) -> str:
    return f"Expired: {_of_trash(done)}, with {done.messages}."


def _gave_up_trash(done: Done) -> str:
    return f"Gave up {_of_trash(done)}, since the trash or the disk is full: {done.messages}."


def _deleted_cursor(done: Done) -> str:
    return f"Deleted the pipeline cursor {done.topic}/{done.cursor}. It gave up {done.given_up}."


def _looked(done: Done) -> str:
    return f"Looked at {counted(done.outcome.depth, 'message')} of {done.name}."


def _created_cursor(done: Done) -> str:
    name = f"{done.topic}/{done.cursor}"
    if done.outcome.created:
        return f"Created the pipeline cursor {name}: {counted(done.outcome.depth, 'message')} to read."
    return f"The pipeline cursor {name} was there already; nothing was changed."


def _moved_cursor(done: Done) -> str:
    left = counted(done.outcome.depth, "message")
    name, offset = f"{done.topic}/{done.cursor}", done.details["offset"]
    return f"Moved the pipeline cursor {name} to offset {offset:,}: {left} left to read."


def _released_lease(done: Done) -> str:
    return f"Released the lease {done.details['lease']} of {done.topic}: it holds no messages any more."


def _changed_option(done: Done) -> str:
    return f"Changed {done.details['option']} to {done.details['value']}, until the next start."


def _finished_messages(done: Done) -> str:
    return f"Finished {done.messages} of {done.name}{done.left_alone}."


def _quarantined_messages(done: Done) -> str:
    return f"Quarantined {done.messages} of {done.name}{done.left_alone}."


def _redriven_messages(done: Done) -> str:
    return f"Redrove {counted(done.outcome.quarantined, 'message')} of {done.name}{done.left_alone}."


def _requeued_messages(done: Done) -> str:
    return f"Requeued {counted(done.outcome.in_flight, 'message')} of {done.name}{done.left_alone}."


def _released_messages(done: Done) -> str:
    return f"Released {counted(done.outcome.deferred, 'deferred message')} of {done.name}{done.left_alone}."


def _published_again(done: Done) -> str:
    to = done.details.get("to") or done.topic
    return f"Published {counted(done.outcome.depth, 'message')} of {done.name} again to {to}{done.left_alone}."


SENTENCES: Mapping[str, Callable[[Done], str]] = {
    "create_topic": _created,
    "create_channel": _created,
    "publish": _published,
    "pause_topic": _paused_topic,
    "unpause_topic": _resumed,
    "pause_channel": _paused_channel,
    "unpause_channel": _resumed,
    "retry_topic": _retried_topic,
    "retry_channel": _retried_channel,
    "requeue_channel": _requeued,
    "release_deferred": _released,
    "requeue_messages": _requeued_messages,
    "release_messages": _released_messages,
    "publish_again": _published_again,
    "set_max_attempts": _max_attempts_set,
    "redrive_channel": _redriven,
    "cancel_redrive": _redrive_cancelled,
    "archive_on": _switched_on,
    "finish_messages": _finished_messages,
    "rewind_channel": _rewound,
    "empty_topic": _emptied,
    "empty_channel": _emptied,
    "delete_topic": _deleted_topic,
    "delete_channel": _deleted_channel,
    "restore_trash": _restored,
    "delete_trash": _deleted_trash,
    "delete_cursor": _deleted_cursor,
    "archive_off": _switched_off,
    "archive_again": _begun_again,
    "quarantine_messages": _quarantined_messages,
    "redrive_messages": _redriven_messages,
    "expire_trash": _expired_trash,
    "give_up_trash": _gave_up_trash,
    "read_messages": _looked,
    "create_cursor": _created_cursor,
    "move_cursor": _moved_cursor,
    "release_lease": _released_lease,
    "change_option": _changed_option,
}


def sentence_of(action: str, topic: str, channel: str, details: Mapping[str, Any], outcome: Outcome) -> str:
    """The sentence for an act that was done."""
    return SENTENCES[action](Done(topic, channel, details, outcome))
