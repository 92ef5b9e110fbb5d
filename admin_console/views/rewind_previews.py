"""The previews of a rewind: read at one node or several, and in words."""

from collections.abc import Callable, Iterable

from admin_console.gateway.gateway import EngineUnavailableError, ReadRefusedError, SeekPreview, Target
from admin_console.gateway.sentences import counted
from admin_console.views.on_nodes import Holder

IN_FLIGHT = "Messages in flight are taken from their consumers, whose FIN then comes too late."

_NONE = "no message"


def consequences_of(preview: SeekPreview, *, is_on: bool) -> list[str]:
    """The sentences of a preview. The offset is fixed from here on: later messages come after it."""
    there = _held(preview)
    if is_on:
        skipped = _skipped(preview)
        return [
            f"The channel continues at offset {preview.offset:,} ({there}).",
            (
                f"It skips {skipped} that it has not finished, and delivers messages from that offset on: "
                f"{counted(preview.depth, 'message')} so far, and messages published in the meantime."
            ),
            IN_FLIGHT,
            *(["While the log keeps skipped messages, Rewind can bring them back."] if skipped != _NONE else []),
        ]
    return [
        f"The channel goes to offset {preview.offset:,} ({there}).",
        (
            f"It skips unfinished messages before that offset and delivers {counted(preview.depth, 'message')} from "
            "there on, finished ones again, and messages published in the meantime. Unfinished now: "
            f"{counted(preview.depth_now, 'message')}."
        ),
        IN_FLIGHT,
    ]


def words_of(preview: SeekPreview, *, is_on: bool, quarantined: int) -> str:
    """The preview at one node of several. quarantined: messages of the channel there."""
    count = counted(preview.depth, "message")
    if is_on:
        words = f"it continues at offset {preview.offset:,} ({_held(preview)}), skips {_skipped(preview)} that it has "
        words += f"not finished, and delivers {count} so far"
    else:
        words = f"it goes to offset {preview.offset:,} ({_held(preview)}), skips unfinished messages before it and "
        words += f"delivers {count} from there on, finished ones again; unfinished now: "
        words += counted(preview.depth_now, "message")
    if not quarantined:
        return words
    after = "those before that offset are skipped, too, the others stay so" if is_on else "none stays so"
    return f"{words}; of {counted(quarantined, 'quarantined message')} {after}"


def previews_of(holders: Iterable[Holder], topic: str, channel: str, target: Target) -> dict[str, SeekPreview | str]:
    """By node, all read at once; of a node that gives none, the reason without a full stop."""
    found: dict[str, SeekPreview | str] = {}
    begun: dict[str, Callable[[], SeekPreview]] = {}
    for holder in holders:
        if not holder.place.is_answering:
            found[holder.name] = "it does not answer"
            continue
        try:
            begun[holder.name] = holder.node.begin_seek_preview(topic, channel, target)
        except ReadRefusedError as exc:
            found[holder.name] = exc.reason
    for name, preview in begun.items():
        try:
            found[name] = preview()
        except ReadRefusedError as exc:
            found[name] = exc.reason
        except EngineUnavailableError as exc:
            found[name] = str(exc).removesuffix(".")
    return found


def _skipped(preview: SeekPreview) -> str:
    count = max(0, preview.depth_now - preview.depth)
    return counted(count, "message") if count else _NONE


def _held(preview: SeekPreview) -> str:
    if preview.oldest_offset >= preview.end_offset:
        return "the topic holds no message"
    return f"the topic holds offsets {preview.oldest_offset:,} to {preview.end_offset - 1:,}"
