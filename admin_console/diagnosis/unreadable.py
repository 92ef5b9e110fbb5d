"""The disk refuses to read or write some of the channel's data."""

from admin_console.diagnosis import words
from admin_console.diagnosis.finding import DANGER, Finding, FindingKind, Sentences
from admin_console.diagnosis.vitals import Vitals

UNREADABLE = FindingKind("unreadable", act="retry_channel")


def find(vitals: Vitals) -> Finding | None:
    stats = vitals.stats
    if not stats.unreadable:
        return None
    return Finding(
        UNREADABLE,
        DANGER,
        lambda: Sentences(
            "▲ unreadable",
            "Not readable: the disk refuses something of this channel.",
            f"{words.sentence(stats.unreadable)} {words.depth(vitals)}. It is tried again by itself, and everything "
            "else goes on. Look at the disk; queue_engine/storage/README.md lists remedies.",
            "the disk refuses something of this channel",
        ),
    )
