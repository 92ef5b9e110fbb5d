"""What an operator does to single messages that consumers hold."""

from collections.abc import Sequence

from queue_engine.delivery.channel import Channel
from queue_engine.delivery.fences import refusal


def refuse_fenced(channel: Channel) -> None:
    """Raises FencedError while the channel is fenced: where a message stands may be unknown then."""
    if channel.fence is not None:
        raise refusal(channel)


def take_held(channel: Channel, message_id: bytes) -> None:
    """Take a message in flight from its consumer, whose FIN, REQ and TOUCH come too late from now on."""
    channel.held.remove(None, message_id).consumer.in_flight_count -= 1


def finish_held(channel: Channel, ids: Sequence[bytes]) -> None:
    """Finish messages in flight, each given once, as `take_held`."""
    for message_id in ids:
        take_held(channel, message_id)
    channel.backlog.settle(ids)
    finished(channel, len(ids))


def finished(channel: Channel, count: int) -> None:
    """So many were finished: those who had them have room, and others may be the next that are due."""
    channel.finish_count += count
    channel.has_moved()
