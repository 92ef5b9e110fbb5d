"""What an act did, in one sentence with numbers."""

from typing import Any

from queue_engine.delivery.stats import Outcome
from queue_engine.vocabulary.options import format_duration


def counted(number: int, noun: str) -> str:
    """`1 message`, `12,304 messages`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def and_list(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def message_counts(depth: int, in_flight: int, deferred: int) -> str:
    """`12,551 messages (depth 12,304, 17 in flight, 230 deferred)`, or the one kind that there is: `12,304 messages`,
    `17 messages in flight`, `230 messages deferred`; "" when there are none."""
    kinds = [f"depth {depth:,}"] if depth else []
    kinds += [f"{number:,} {kind}" for number, kind in ((in_flight, "in flight"), (deferred, "deferred")) if number]
    messages = counted(depth + in_flight + deferred, "message")
    if len(kinds) > 1:
        return f"{messages} ({', '.join(kinds)})"
    if not kinds:
        return ""
    return messages if depth else f"{messages} {'in flight' if in_flight else 'deferred'}"


def outcome_counts(outcome: Outcome) -> dict[str, int]:
    """What an act concerned, without what is nothing."""
    names = ("depth", "in_flight", "deferred", "channels", "clients")
    return {name: number for name in names if (number := getattr(outcome, name))}


def given_up(count: int, cursor: str) -> str:
    """`12,304 messages that are not archived`: what ends with a pipeline cursor."""
    if not count:
        return "nothing: it has passed every message"
    verb = "is" if count == 1 else "are"
    return f"{counted(count, 'message')} that {verb} not {'archived' if cursor == 'archive' else 'read'}"


def done(action: str, topic: str, channel: str, details: dict[str, Any], outcome: Outcome) -> str:
    """The sentence for an act that was done."""
    name = f"{topic}/{channel}" if channel else topic
    cursor_name = details.get("cursor", channel)  # over HTTP it stands in the channel's place
    cursor = f"{topic}/{cursor_name}"
    dropped = message_counts(outcome.depth, outcome.in_flight, outcome.deferred) or "no messages"
    match action:
        case "create_topic" | "create_channel":
            return f"Created {name}." if outcome.created else f"{name} was there already; nothing was changed."
        case "pause_topic":
            return f"Paused {name}: its messages stay at the topic, {outcome.depth:,} so far."
        case "pause_channel":
            held = message_counts(outcome.depth, outcome.in_flight, 0) or "no messages"
            return f"Paused {name}: its consumers get nothing until it is resumed. It holds {held} now."
        case "unpause_topic" | "unpause_channel":
            return f"Resumed {name}: its depth was {outcome.depth:,}."
        case "retry_topic":
            return f"{name} goes on: it is accepting messages, and its own depth is {outcome.depth:,}."
        case "retry_channel":
            back = f", {outcome.in_flight:,} of it back from consumers" if outcome.in_flight else ""
            return f"{name} goes on: its depth is {outcome.depth:,}{back}."
        case "empty_topic":
            where = f" and its {counted(outcome.channels, 'channel')}" if details.get("channels_too") else ""
            return f"Emptied {name}{where}: dropped {dropped}."
        case "empty_channel":
            return f"Emptied {name}: dropped {dropped}."
        case "delete_topic":
            consumers = f", disconnected {counted(outcome.clients, 'consumer')}" if outcome.clients else ""
            return f"Deleted {name} with {counted(outcome.channels, 'channel')}: dropped {dropped}{consumers}."
        case "delete_channel":
            consumers = f", disconnected {counted(outcome.clients, 'consumer')}" if outcome.clients else ""
            return f"Deleted {name}: dropped {dropped}{consumers}."
        case "requeue_channel":
            return f"Requeued {counted(outcome.in_flight, 'message')} of {name}."
        case "release_deferred":
            return f"Released {counted(outcome.deferred, 'deferred message')} of {name}."
        case "rewind_channel":
            taken = f", {counted(outcome.in_flight, 'message')} taken from consumers" if outcome.in_flight else ""
            place = f" to offset {details['target'].offset:,}" if "target" in details else ""
            return f"Rewound {name}{place}: its depth is {outcome.depth:,} now{taken}."
        case "create_cursor":
            return (
                f"Created the pipeline cursor {cursor}: {counted(outcome.depth, 'message')} to read."
                if outcome.created
                else f"The pipeline cursor {cursor} was there already; nothing was changed."
            )
        case "move_cursor":
            left = counted(outcome.depth, "message")
            return f"Moved the pipeline cursor {cursor} to offset {details['offset']:,}: {left} left to read."
        case "release_lease":
            return f"Released the lease {details['lease']} of {topic}: it keeps no messages any more."
        case "delete_cursor":
            return f"Deleted the pipeline cursor {cursor}. It gave up {given_up(outcome.depth, cursor_name)}."
        case "archive_on":
            to_archive = f"{counted(outcome.depth, 'message')} to archive"
            return (
                f"Switched the archive of {topic} on: {to_archive}."
                if outcome.created
                else f"The archive of {topic} was on already, with {to_archive}; nothing was changed."
            )
        case "archive_off":
            return f"Switched the archive of {topic} off. It gave up {given_up(outcome.depth, cursor_name)}."
        case "read_messages":
            return f"Looked at {counted(outcome.depth, 'message')} of {name}."
        case "publish":
            size = sum(len(body) for body in details["bodies"])
            later = f", to be delivered in {format_duration(details['defer_ms'])}" if details.get("defer_ms") else ""
            return f"Published 1 message of {counted(size, 'byte')} to {name}{later}."
    raise ValueError(f"no sentence for {action!r}")
