"""Which topics and channels an answer lists: those that the client wants, within the limit of series."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import NamedTuple

from queue_engine.delivery.stats import TopicStats


class SeriesCosts(NamedTuple):
    """How many series each has in an answer. channel: without its histograms."""

    topic: int
    channel: int
    histograms: int
    cursor: int


class Selection(NamedTuple):
    """topics: those listed, by name, with the channels that are listed. has_histograms: whether channels have theirs.
    The counts are of those that the limit left out."""

    topics: tuple[TopicStats, ...]
    has_histograms: bool
    topics_left_out: int
    channels_left_out: int
    series_left_out: int


def select(topics: Sequence[TopicStats], patterns: Sequence[str], series_max: int, costs: SeriesCosts) -> Selection:
    """patterns: of topic names, with * and ?; none: every topic. series_max: 0 for no limit.

    Where all is too much, the histograms of channels go first, which are most of it. Within the limit the topics and
    channels that were made first are listed. A topic is listed before the topics that were made after it get any
    series.
    """
    wanted = [one for one in topics if not patterns or any(fnmatchcase(one.topic_name, each) for each in patterns)]
    channel_count = sum(len(topic.channels) for topic in wanted)
    least = sum(costs.topic + costs.cursor * len(topic.cursors) for topic in wanted) + costs.channel * channel_count
    if not series_max or least + costs.histograms * channel_count <= series_max:
        return Selection(tuple(wanted), True, 0, 0, 0)
    left = series_max
    listed: list[TopicStats] = []
    topics_left_out = channels_left_out = 0
    series_left_out = costs.histograms * channel_count
    for topic in sorted(wanted, key=lambda one: one.number):
        topic_cost = costs.topic + costs.cursor * len(topic.cursors)
        if topic_cost > left:
            left = 0
            topics_left_out += 1
            channels_left_out += len(topic.channels)
            series_left_out += topic_cost + costs.channel * len(topic.channels)
            continue
        left -= topic_cost
        room = left // costs.channel
        channels = topic.channels
        if len(channels) > room:
            fitting = sorted(sorted(channels, key=attrgetter("number"))[:room], key=attrgetter("channel_name"))
            channels_left_out += len(channels) - room
            series_left_out += costs.channel * (len(channels) - room)
            topic = replace(topic, channels=tuple(fitting))
            left = 0
        else:
            left -= costs.channel * len(channels)
        listed.append(topic)
    by_name = tuple(sorted(listed, key=lambda one: one.topic_name))
    return Selection(by_name, False, topics_left_out, channels_left_out, series_left_out)
