"""Every act, once: its name, who may do it, and the sentence for what it did.

The permissions, the gateway, the audit list and the engine's HTTP API name an act as this table does. An act over HTTP
alone has no role here: a client with the API's token may do it (`queue_engine/service/http/rules.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from admin_console.gateway.act_state import IN_CHANNEL, OF_CHANNEL, OF_MESSAGES, OF_TOPIC, SHARED, State
from admin_console.gateway.sentences import counted, ended_pause, given_up, message_counts, paused_until
from admin_console.vocabulary.roles import Role
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


@dataclass(frozen=True, slots=True)
class Act:
    """least: the role that may do it on a page; None: no page offers it. The engine does those of
    `queue_engine/engine_calls.py`, the pipeline's worker, the console or an nsqlookupd the others. unchanged: what must
    not have changed since its question showed it."""

    name: str
    least: Role | None
    sentence: Callable[[Done], str] | None = None
    unchanged: tuple[State, ...] = field(kw_only=True, default=())

    @property
    def changes(self) -> frozenset[State]:
        """What it changes that questions show."""
        return SHARED.intersection(self.unchanged)


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
    return f"The archive of {done.topic} begins a new table, with {to_archive}."


def _rewound(done: Done) -> str:
    taken = f", {counted(done.outcome.in_flight, 'message')} taken from consumers" if done.outcome.in_flight else ""
    place = f" to offset {done.details['target'].offset:,}" if "target" in done.details else ""
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
    what = now if now.split("/")[0] == done.topic else f"{done.topic} as {now}"
    swapped = " The topic of that name went to the trash." if outcome.trash else ""
    return f"Restored {what} from the trash: {back} came back.{swapped}"


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
    return f"Released the lease {done.details['lease']} of {done.topic}: it keeps no messages any more."


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


_TABLE = (
    Act("create_topic", Role.OPERATOR, _created),
    Act("create_channel", Role.OPERATOR, _created, unchanged=(State.TOPIC, State.CHANNELS)),
    Act("publish", Role.OPERATOR, _published, unchanged=(State.TOPIC,)),
    Act("pause_topic", Role.OPERATOR, _paused_topic, unchanged=(State.TOPIC, State.TOPIC_PAUSE)),
    Act("unpause_topic", Role.OPERATOR, _resumed, unchanged=(State.TOPIC, State.TOPIC_PAUSE)),
    Act(
        "pause_channel",
        Role.OPERATOR,
        _paused_channel,
        unchanged=(State.CHANNEL, State.CHANNEL_PAUSE),
    ),
    Act(
        "unpause_channel",
        Role.OPERATOR,
        _resumed,
        unchanged=(State.CHANNEL, State.CHANNEL_PAUSE),
    ),
    Act("retry_topic", Role.OPERATOR, _retried_topic, unchanged=(State.TOPIC, State.TOPIC_FENCE)),
    Act(
        "retry_channel",
        Role.OPERATOR,
        _retried_channel,
        unchanged=(State.CHANNEL, State.CHANNEL_FENCE),
    ),
    Act("requeue_channel", Role.OPERATOR, _requeued, unchanged=(State.CHANNEL, State.IN_FLIGHT)),
    Act("release_deferred", Role.OPERATOR, _released, unchanged=(State.CHANNEL, State.DEFERRED)),
    Act("requeue_messages", Role.OPERATOR, _requeued_messages, unchanged=OF_MESSAGES),
    Act("release_messages", Role.OPERATOR, _released_messages, unchanged=OF_MESSAGES),
    Act(
        "publish_again",
        Role.OPERATOR,
        _published_again,
        unchanged=(*OF_MESSAGES, State.COPIES),
    ),
    Act(
        "set_max_attempts",
        Role.OPERATOR,
        _max_attempts_set,
        unchanged=(State.CHANNEL, State.MAX_ATTEMPTS),
    ),
    Act("redrive_channel", Role.OPERATOR, _redriven, unchanged=(State.CHANNEL, State.QUARANTINE)),
    Act(
        "cancel_redrive",
        Role.OPERATOR,
        _redrive_cancelled,
        unchanged=(State.CHANNEL, State.QUARANTINE),
    ),
    # The archive of a topic is the cursor of that name.
    Act("archive_on", Role.OPERATOR, _switched_on, unchanged=(State.TOPIC, State.CURSOR)),
    Act("stop_job", Role.OPERATOR, unchanged=(State.JOB,)),
    Act("start_job", Role.OPERATOR, unchanged=(State.JOB,)),
    # A replay publishes, as an operator may: what is planned and read is in the archive, not in the answer.
    Act("plan_replay", Role.OPERATOR),
    Act("run_replay", Role.OPERATOR, unchanged=(State.REPLAY,)),
    Act("cancel_replay", Role.OPERATOR, unchanged=(State.REPLAY,)),
    # It ends by itself, after the tombstone's lifetime.
    Act("tombstone_producer", Role.OPERATOR, unchanged=(State.TOMBSTONE,)),
    # These lose messages, or deliver them again.
    # Whoever makes a token can give its rights to any program.
    Act("create_token", Role.ADMIN),
    Act("revoke_token", Role.ADMIN, unchanged=(State.PROGRAM,)),
    Act("finish_messages", Role.ADMIN, _finished_messages, unchanged=OF_MESSAGES),
    Act("rewind_channel", Role.ADMIN, _rewound, unchanged=(State.CHANNEL, *IN_CHANNEL)),
    Act(
        "empty_topic",
        Role.ADMIN,
        _emptied,
        unchanged=(State.TOPIC, State.TOPIC_BACKLOG, *IN_CHANNEL, State.COUNTS),
    ),
    Act(
        "empty_channel",
        Role.ADMIN,
        _emptied,
        unchanged=(State.CHANNEL, *IN_CHANNEL, State.COUNTS),
    ),
    Act(
        "delete_topic",
        Role.ADMIN,
        _deleted_topic,
        unchanged=(State.TOPIC, *OF_TOPIC, State.COUNTS),
    ),
    Act(
        "delete_channel",
        Role.ADMIN,
        _deleted_channel,
        unchanged=(State.CHANNEL, *OF_CHANNEL, State.COUNTS),
    ),
    Act(
        "restore_trash",
        Role.ADMIN,
        _restored,
        unchanged=(State.TOPIC, State.TRASH, State.TOPIC_BACKLOG, *IN_CHANNEL),
    ),
    Act("delete_trash", Role.ADMIN, _deleted_trash, unchanged=(State.TRASH,)),
    Act(
        "delete_cursor",
        Role.ADMIN,
        _deleted_cursor,
        unchanged=(State.TOPIC, State.CURSOR, State.COUNTS),
    ),
    Act("archive_off", Role.ADMIN, _switched_off, unchanged=(State.TOPIC, State.CURSOR, State.COUNTS)),
    Act("archive_again", Role.ADMIN, _begun_again, unchanged=(State.TOPIC, State.CURSOR)),
    Act("set_archive_limits", Role.ADMIN, unchanged=(State.LIMITS,)),
    Act(
        "quarantine_messages",
        Role.OPERATOR,
        _quarantined_messages,
        unchanged=OF_MESSAGES,
    ),
    Act("redrive_messages", Role.OPERATOR, _redriven_messages, unchanged=OF_MESSAGES),
    # The server by itself.
    Act("expire_trash", None, _expired_trash, unchanged=(State.TRASH,)),
    Act("give_up_trash", None, _gave_up_trash, unchanged=(State.TRASH,)),
    # Over HTTP alone; a look on a page is a page, and audited.
    Act("read_messages", None, _looked),
    Act("create_cursor", None, _created_cursor, unchanged=(State.CURSOR,)),
    Act("move_cursor", None, _moved_cursor),
    Act("release_lease", None, _released_lease),
    Act("change_option", None, _changed_option),
)
ACTS = {act.name: act for act in _TABLE}


def rivals_of(action: str) -> frozenset[str]:
    """The acts that change what the question of `action` shows, itself included where it does."""
    changes = ACTS[action].changes
    return frozenset(act.name for act in _TABLE if act.changes & changes)


def sentence_of(action: str, topic: str, channel: str, details: Mapping[str, Any], outcome: Outcome) -> str:
    """The sentence for an act that was done."""
    sentence = ACTS[action].sentence
    assert sentence is not None, action
    return sentence(Done(topic, channel, details, outcome))
