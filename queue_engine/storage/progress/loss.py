"""The cost of damaged progress: how many finished messages each channel delivers again.

A clean stop writes down how many messages each channel has left. If a start finds more, it delivers exactly the
difference again. After any other end that number is unknown: then it is at most the finished messages of the damaged
segment, or, where the journal or the floors are damaged, at most all messages that the channel has left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from queue_engine.storage.consume_queue.consume_queue import ConsumeQueue
from queue_engine.storage.progress.channel_progress import ChannelProgress
from queue_engine.storage.progress.progress_recovery import ProgressDamage, RecoveredProgress
from queue_engine.storage.recovery_report import ProgressLoss


@dataclass(frozen=True, slots=True)
class LossChannel:
    """A channel by its names, and the consume queue of its topic."""

    topic: str
    channel: str
    queue: ConsumeQueue


def waiting_below(end: int, progress: ChannelProgress, queue: ConsumeQueue) -> int:
    """How many messages below offset `end` a channel has not finished."""
    first = max(progress.floor, queue.oldest_offset)
    if first >= end:
        return 0
    total = queue.count_between(first, end)
    if first == progress.floor and progress.cursor <= end and not queue.gaps:
        return total - progress.settled_above_floor()
    for start, count in progress.settled_between(first, end):
        total -= queue.count_between(start, min(start + count, end))
    return total


def progress_losses(found: RecoveredProgress, places: Mapping[int, LossChannel]) -> list[ProgressLoss]:
    """The channels that deliver finished messages again, most first. places: by channel number."""
    losses: list[ProgressLoss] = []
    if found.error is not None:
        return losses  # all channels are fenced
    for number, progress in found.channels.items():
        if number in found.unread:
            continue  # it is fenced
        place = places[number]
        left = found.stop.waiting.get(number) if found.stop is not None else None
        if left is not None:
            end, waiting = left
            count, is_exact = waiting_below(end, progress, place.queue) - waiting, True
        elif found.damages:
            count, is_exact = _most(found.damages, number, progress, place.queue), False
        else:
            continue
        if count > 0:
            losses.append(ProgressLoss(place.topic, place.channel, count, is_exact))
    return sorted(losses, key=lambda one: -one.count)


def _most(damages: Sequence[ProgressDamage], number: int, progress: ChannelProgress, queue: ConsumeQueue) -> int:
    """How many messages this damage can cost a channel at most."""
    waiting = waiting_below(queue.end_offset, progress, queue)
    if any(not damage.channel for damage in damages):
        return waiting
    mine = [damage.settled_max for damage in damages if damage.channel == number]
    return min(waiting, sum(waiting if one is None else one for one in mine))
