"""The channel, or its topic, is paused."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import HELD, Finding, Kind
from admin_console.diagnosis.vitals import Vitals
from admin_console.vocabulary import units

PAUSED = Kind("paused", act="unpause_channel")
TOPIC_PAUSED = Kind("topic paused", act="unpause_topic")


def find(vitals: Vitals) -> Finding | None:
    if not vitals.stats.paused:
        return None
    since = f" for {units.duration(vitals.paused_s)}" if vitals.paused_s is not None else ""
    return Finding(
        PAUSED,
        HELD,
        "❚❚ paused",
        f"Paused{since}: nothing is delivered.",
        f"{words.depth(vitals)}.{words.growth(vitals)} Resume it to deliver them.",
    )


def find_topic(vitals: Vitals) -> Finding | None:
    if not vitals.topic_paused or vitals.stats.paused:
        return None
    return Finding(
        TOPIC_PAUSED,
        HELD,
        "❚❚ topic paused",
        f"The topic {vitals.topic_name} is paused: no new message comes to its channels.",
        "What is here already is still delivered. Resume the topic to let the rest through.",
    )
