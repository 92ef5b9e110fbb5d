"""Acts that came over the HTTP API while no console ran: the engine's own file of them (`queue_engine/act_file`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from admin_console.gateway.act_sentences import sentence_of
from queue_engine.act_file import act_reader
from queue_engine.act_file.entry import COUNT_NAMES, Entry
from queue_engine.delivery.stats import VIA_HTTP, Outcome


@dataclass(frozen=True, slots=True)
class FileAct:
    """One line of the file. number: None where the line is damaged, and then nothing else is known. is_over: False for
    an act without a result: the process ended in between. times: how many acts the line stands for."""

    number: int | None
    at_ms: int = 0
    action: str = ""
    topic: str = ""
    channel: str = ""
    actor: str = ""
    address: str = ""
    via: str = ""
    is_done: bool = False
    is_over: bool = True
    sentence: str = ""
    times: int = 1
    counts: Mapping[str, int] = field(default_factory=dict)


def has_file_acts(directory: Path) -> bool:
    return act_reader.has_entries(directory)


def file_acts(directory: Path, *, before: int, count: int) -> tuple[list[FileAct], bool]:
    """Up to `count` acts with numbers below `before` (0: the newest), newest first; and whether there are older ones.
    Raises OSError."""
    page = act_reader.read_page(directory, before=before, count=count)
    return [_act_of(one.number, one.entry) for one in page.entries], page.has_older


def _act_of(number: int | None, entry: Entry | None) -> FileAct:
    if entry is None:
        return FileAct(None)
    is_over = entry.phase != "intent"
    return FileAct(
        number,
        entry.at_ms,
        entry.action,
        entry.topic,
        entry.channel,
        entry.actor,
        entry.address,
        "http-api" if entry.via == VIA_HTTP else entry.via,
        is_done=is_over and not entry.error,
        is_over=is_over,
        sentence=entry.error if entry.error or not is_over else _sentence(entry),
        times=entry.times,
        counts={name: n for name, n in entry.counts.items() if name in COUNT_NAMES},
    )


def _sentence(entry: Entry) -> str:
    # A line of a version that did not write `created` stands for an act that changed something, as nearly all did.
    outcome = Outcome(created=entry.created is not False)
    for name in COUNT_NAMES & entry.counts.keys():
        setattr(outcome, name, entry.counts[name])
    try:
        return sentence_of(entry.action, entry.topic, entry.channel, entry.details, outcome)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""  # a file keeps only what an act's details are in JSON
