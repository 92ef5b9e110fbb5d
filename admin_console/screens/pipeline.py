"""The pipeline: its worker, its jobs, the archived topics, the replays."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from admin_console.gateway.gateway import ARCHIVE_CURSOR
from admin_console.hub.hub import LiveState
from admin_console.screens.cells import ActionCell, BaseCell, Cell, Chip, NameCell, ProgressCell, StateCell, TimesCell
from admin_console.screens.cursors import NEW_TABLE, WRITE_MISSING_FILES, begin_again_cell
from admin_console.screens.jobs import (
    error_cell,
    housekeeping_table,
    job_chips,
    job_table,
    jobs_in_trouble,
    progress_cell,
    rate_cell,
    trouble,
)
from admin_console.screens.links import act_cell, topic_cell, url_of
from admin_console.screens.parts import Banner, Column, Empty, Stat, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from admin_console.vocabulary.units import moment

if TYPE_CHECKING:
    from admin_console.gateway.gateway import CursorStats
    from admin_console.gateway.pipeline import ArchivedTopic, PipelineView, ReplayView

TOPICS_SHOWN_MAX = 200
# Smaller files of the worker are not worth a note.
FILES_SHOWN_BYTES_MIN = 1 << 20
# The reason that the archive gives for offsets that have no message in the log.
_NO_MESSAGES = "absent"
_LEFT_OUT = ("off", "replayed")
_REASONS = {
    _NO_MESSAGES: "offsets that no message uses",
    "damaged": "damaged in the log",
    "gone": "removed from the log before they were archived",
    "retention": "beyond the limit of the log",
    "off": "the archive was off",
    "lost": "their table or file is lost",
    "replayed": "published by a replay",
}
_TOPIC_COLUMNS = (
    Column("name", "Topic", "name"),
    Column("state", "Archive", "state"),
    Column("progress", "Archived", "progress"),
    Column("waiting", "To archive"),
    Column("bytes", "Size"),
    Column("range", "From, to (UTC)", "text"),
    Column("offsets", "Offsets", "text"),
    Column("gaps", "Lost", "text"),
    Column("action", "Act", "action"),
)
_REPLAY_COLUMNS = (
    Column("name", "Replay", "name"),
    Column("state", "State", "state"),
    Column("what", "From, to", "text"),
    Column("progress", "Published", "progress"),
    Column("rate", "Rate"),
    Column("error", "Last error", "text"),
    Column("action", "Act", "action"),
)


_NO_QUEUE = "This console has no queue of its own; the jobs write the history of its nodes."


def parts(live: LiveState | None, role: Role, view: "PipelineView", *, has_queue: bool = True) -> dict[str, Any]:
    """The parts of the screen. live: for the cursors of topics as they are now; None before the first figures.
    has_queue: whether this console runs with an engine, which an archive and replays take."""
    cursors = archive_cursors(live)
    jobs, archived = (
        job_table(view, role, _to_archive(live, cursors)),
        _topic_table(live, view, cursors, role, has_queue),
    )
    replays = _replay_table(view, role, has_queue)
    return {
        "subtitle": _subtitle(view),
        "banner": _banner(view),
        "stats": _stats(live, view, cursors),
        "tables": {
            "jobs": jobs,
            "archived": archived,
            "replays": replays,
            "housekeeping": housekeeping_table(view),
        },
        "flags": {
            "off": not view.is_switched_on,
            "archived": bool(view.topics),
            "stops": _offers(jobs, "Stop…"),
            "starts": _offers(jobs, "Start…") or _offers(replays, "Start…"),
            "runs": _offers(replays, "Run…"),
            "cancels": _offers(replays, "Cancel…"),
            "archives": _offers(archived, "Archive…"),
            "stops_archiving": _offers(archived, "Stop archiving…"),
            "begins_again": _offers(archived, NEW_TABLE),
            "writes_missing": _offers(archived, WRITE_MISSING_FILES),
        },
    }


def _offers(table: Table, label: str) -> bool:
    """Whether a row has the act, for those who may not do it as well."""
    return any(isinstance(cell, ActionCell) and cell.text == label for row in table.rows for _, cell in row.cells)


def _to_archive(live: LiveState | None, cursors: "dict[tuple[str, int, int], CursorStats]") -> int | None:
    """How many messages the archive is behind; None where the engine reports no cursor of it."""
    return sum(cursor.depth for cursor in cursors.values()) if live is not None and cursors else None


def archive_cursors(live: LiveState | None) -> "dict[tuple[str, int, int], CursorStats]":
    """The cursors of the archive by topic, number and id base."""
    topics = live.snapshot.topics if live else ()
    return {
        (cursor.topic, cursor.number, cursor.id_base): cursor
        for topic in topics
        for cursor in topic.cursors
        if cursor.cursor == ARCHIVE_CURSOR
    }


def replay_chips(replay: "ReplayView", view: "PipelineView") -> tuple[Chip, ...]:
    """The state of a replay: being planned, waiting for Run or Discard, or the state of its run."""
    if replay.run_job is not None:
        return job_chips(replay.run_job, view)
    if replay.planned is not None:
        return (Chip(replay.word, "", "Run it or discard it."),)
    if replay.word == "not planned":
        title = "Its plan failed and is tried again." if replay.is_planned_again else ""
        return (Chip("▲ not planned", "warning", title),)
    return (Chip(replay.word if view.holder else "to be planned"),)


def replay_action(replay: "ReplayView", role: Role) -> ActionCell:
    """The act of a replay's row: Run for a plan, Discard without one, Start for a stopped one, Cancel for a running
    one."""
    if replay.awaits_run:
        return act_cell("Run…", "run_replay", role, replay.replay_id)
    if replay.is_over:
        return ActionCell()
    if replay.run_job is None:
        return act_cell("Discard…", "cancel_replay", role, replay.replay_id)
    if replay.run_job.state == "stopped":
        return act_cell("Start…", "start_job", role, replay.run_job.job)
    return act_cell("Cancel…", "cancel_replay", role, replay.replay_id)


def _subtitle(view: "PipelineView") -> str:
    replays = [one for one in view.replays if not one.is_over]
    return f"{units.plural(_running_count(view), 'job')} running · {units.plural(len(replays), 'open replay')}"


def _running_count(view: "PipelineView") -> int:
    return sum(1 for state in view.jobs.values() if state.state == "running") if view.holder else 0


def _banner(view: "PipelineView") -> Banner | None:
    process = view.process
    if process is None and view.holder is None:
        return Banner(
            "held",
            "The pipeline is switched off (--no-pipeline).",
            "Nothing is archived and no history is written; messages that are not archived stay in the log. "
            "Start serve without --no-pipeline, or run a job by hand: penstock pipeline run archive --once",
        )
    if process is not None and process.word == "blocked":
        return Banner("warning", "The worker can't be started: something is missing on this machine.", process.problem)
    if process is not None and process.word == "waiting":
        why = process.problem.rstrip(".")
        return Banner(
            "warning",
            "The worker ended and will be started again.",
            f"Why: {why}. Next start at {moment(process.next_try_ms)} UTC; the log keeps the messages.",
        )
    if failed := trouble(view):
        return failed
    if view.complaints:
        more = f" (and {len(view.complaints) - 1} more)" if len(view.complaints) > 1 else ""
        return Banner("warning", "A file of the pipeline can't be read.", f"{view.complaints[0]}{more}")
    return None


def _stats(
    live: LiveState | None, view: "PipelineView", cursors: "dict[tuple[str, int, int], CursorStats]"
) -> tuple[Stat, ...]:
    rows = sum(topic.rows for topic in view.topics)
    size = sum(topic.bytes for topic in view.topics)
    files = sum(topic.file_count for topic in view.topics)
    names = {topic.topic for topic in view.topics} | {topic for topic, _, _ in cursors}
    failed = len(jobs_in_trouble(view))
    to_archive = sum(cursor.depth for cursor in cursors.values())
    oldest_s = _oldest_unarchived_s(live, view, cursors)
    open_replays = [one for one in view.replays if not one.is_over]
    return (
        _worker_stat(view),
        Stat(
            "jobs",
            "Jobs running",
            Cell(units.number(_running_count(view))),
            Cell(f"{failed} failed", tone="warning") if failed else Cell("none failed"),
        ),
        Stat(
            "archived",
            "Archived",
            Cell(units.number(rows), units.exact(rows)),
            Cell(f"messages of {units.plural(len(names), 'topic')}"),
        ),
        Stat(
            "bytes",
            "Archive size",
            Cell(units.byte_count(size), f"{size:,} bytes"),
            Cell(units.plural(files, "file")),
        ),
        Stat(
            "oldest",
            "Oldest unarchived",
            Cell("none" if live and not to_archive else _at_most(oldest_s), "younger than the last archived one"),
            Cell(
                f"{units.plural(to_archive, 'message')} to archive" if to_archive else "nothing to archive",
                units.exact(to_archive),
            ),
        ),
        Stat(
            "replays",
            "Open replays",
            Cell(units.number(len(open_replays))),
            Cell(_stages(open_replays, view), "neither done nor discarded"),
        ),
    )


# The next step of an open replay, by its state; other states are shown as they are.
_STAGES = {"planned": "to run or discard", "not planned": "with a failed plan"}


def _stages(open_replays: "Sequence[ReplayView]", view: "PipelineView") -> str:
    """How many are in each state, those that need an operator first: `1 to run or discard, 2 running`."""
    words = [replay_chips(one, view)[0].text.lstrip("▲❚ ") for one in open_replays]
    counts = sorted(Counter(words).items(), key=lambda found: (found[0] not in _STAGES, found[0]))
    return ", ".join(f"{units.number(count)} {_STAGES.get(word, word)}" for word, count in counts) or "none under way"


def _worker_stat(view: "PipelineView") -> Stat:
    """The worker's state, with the size of its own files once that is worth a word."""
    value, note = _worker(view)
    size = view.temporary_bytes + view.log_bytes
    if size >= FILES_SHOWN_BYTES_MIN:
        title = f"temporary files {units.byte_count(view.temporary_bytes)}, log {units.byte_count(view.log_bytes)}"
        title = f"{note.title}; {title}" if note.title else title
        note = replace(note, text=f"{note.text} · {units.byte_count(size)} of files", title=title)
    return Stat("worker", "Worker", value, note)


def _worker(view: "PipelineView") -> tuple[Cell, Cell]:
    process, holder = view.process, view.holder
    now_ms = units.now_ms()
    if holder is not None and (process is None or process.pid != holder.pid):
        where = f"pid {holder.pid} on {holder.host}" if holder.pid else "another process"
        return Cell("elsewhere", holder.command), Cell(f"{where} has locked the lake")
    if process is None:
        return Cell("off"), Cell("--no-pipeline")
    if process.word == "running":
        age = units.duration((now_ms - process.started_ms) / 1000)
        word = "up" if view.worker_state is not None and view.worker_state.state == "ready" else "starting"
        restarts = f", {units.plural(process.restart_count, 'restart')}" if process.restart_count else ""
        note = f"pid {process.pid} · {age}{restarts}"
        return Cell(word, f"started because {process.reason}"), Cell(note, process.problem)
    if process.word == "blocked":
        return Cell("no Java", tone="warning"), Cell("see above", process.problem)
    if process.word == "waiting":
        left_s = max(0.0, (process.next_try_ms - now_ms) / 1000)
        return Cell("ended", process.problem, "warning"), Cell(f"again in {units.duration(left_s)}")
    if process.word == "resting":
        since = units.rough((now_ms - process.resting_since_ms) / 1000)
        return Cell("resting", "It had no work for a while and freed its memory."), Cell(
            f"for {since}, starts when there is work", f"since {moment(process.resting_since_ms)} UTC"
        )
    return Cell("idle", "It is started when a job has something to do."), Cell("nothing to do yet")


def _oldest_unarchived_s(
    live: LiveState | None, view: "PipelineView", cursors: "dict[tuple[str, int, int], CursorStats]"
) -> float | None:
    """How old the oldest message to archive is at most: younger than the last archived one of its topic. None: unknown.

    For a topic of which nothing is archived yet: the time since its archive was switched on, at most.
    """
    archived = {(one.topic, one.number, one.id_base): one.last_time_ms for one in view.topics}
    since = [archived.get(key) or cursor.created_ms for key, cursor in cursors.items() if cursor.depth]
    if not since or live is None:
        return None
    return max(0.0, live.snapshot.taken_at_ns / 1e9 - min(since) / 1000)


def _at_most(seconds: float | None) -> str:
    return units.UNKNOWN if seconds is None else f"≤ {units.duration(seconds)}"


def _topic_table(
    live: LiveState | None,
    view: "PipelineView",
    cursors: "dict[tuple[str, int, int], CursorStats]",
    role: Role,
    has_queue: bool,
) -> Table:
    archived = {(one.topic, one.number, one.id_base): one for one in view.topics}
    present = {topic.topic_name for topic in live.snapshot.topics if topic.storage == "log"} if live else set()
    rows = []
    # Those behind first, then by name.
    keys = sorted({*archived, *cursors}, key=lambda key: (-(cursors[key].depth if key in cursors else 0), key))
    for key in keys[:TOPICS_SHOWN_MAX]:
        topic, cursor = archived.get(key), cursors.get(key)
        rows.append(
            (
                f"{key[0]}/{key[1]}-{key[2]:x}",
                (
                    topic_cell(key[0]),
                    StateCell(_archive_chips(topic, cursor, is_present=key[0] in present)),
                    _archive_progress(topic, cursor),
                    Cell(units.number(cursor.depth), units.exact(cursor.depth)) if cursor else Cell(units.UNKNOWN),
                    _size(topic),
                    _range(topic),
                    _offsets(topic),
                    _gaps(topic, cursor),
                    _switch(key[0], topic, cursor, role, is_present=key[0] in present),
                ),
            )
        )
    empty = (
        Empty("No topic is archived here", _NO_QUEUE)
        if not has_queue
        else Empty(
            "No topic is archived",
            "Open a topic of the log and press Archive…: from then on its messages are also written to a Delta table.",
            href=url_of("topics"),
            link="All topics",
        )
    )
    return Table.build("archived", "Archived topics", _TOPIC_COLUMNS, rows, empty)


def _archive_chips(
    topic: "ArchivedTopic | None", cursor: "CursorStats | None", *, is_present: bool
) -> tuple[Chip, ...]:
    chips = []
    if cursor is not None:
        chips.append(Chip("on", "" if cursor.depth else "ok"))
        if cursor.is_warned:
            chips.append(
                Chip("▲ near its limit", "warning", "Beyond it the log deletes messages that are not archived.")
            )
    elif is_present:
        chips.append(Chip("off", "", "Messages published now are not archived."))
    else:
        chips.append(Chip("topic gone", "", "The topic was deleted or created again; its archive stays."))
    if topic is not None and topic.is_lost:
        chips.append(Chip("▲ files missing" if topic.is_partial else "▲ table lost", "danger", topic.error))
    if topic is not None and topic.damaged_count:
        chips.append(Chip(f"▲ {units.number(topic.damaged_count)} damaged", "danger", "Their bodies are lost."))
    return tuple(chips)


def _archive_progress(topic: "ArchivedTopic | None", cursor: "CursorStats | None") -> ProgressCell:
    rows = topic.rows if topic else 0
    words = units.plural(rows, "message")
    if cursor is None:
        return ProgressCell("Archived", 0, 0, words)
    total = rows + cursor.depth
    return (
        ProgressCell(
            "Archived",
            rows,
            total,
            words,
            f"{units.plural(rows, 'row')} in the table, {units.plural(cursor.depth, 'message')} to archive",
        )
        if total
        else ProgressCell("Archived", 0, 0, words)
    )


def _size(topic: "ArchivedTopic | None") -> Cell:
    if topic is None:
        return Cell(units.UNKNOWN)
    title = f"{topic.bytes:,} bytes in {units.plural(topic.file_count, 'file')}"
    if topic.committed_ms:
        title = f"{title}; version {topic.table_version:,} of the table, committed {moment(topic.committed_ms)} UTC"
    return Cell(units.byte_count(topic.bytes), title)


def _range(topic: "ArchivedTopic | None") -> BaseCell:
    if topic is None or topic.first_time_ms is None or topic.last_time_ms is None:
        return Cell("nothing yet", tone="muted")
    return TimesCell((topic.first_time_ms, topic.last_time_ms))


def _offsets(topic: "ArchivedTopic | None") -> Cell:
    if topic is None or topic.next_offset <= topic.first_offset:
        return Cell(units.UNKNOWN)
    return Cell(f"{topic.first_offset:,} – {topic.next_offset - 1:,}", f"topic number {topic.number}")


def _gaps(topic: "ArchivedTopic | None", cursor: "CursorStats | None") -> Cell:
    """The gaps of the archive: lost messages, those left out on purpose, and offsets that no message ever had."""
    # Two rows may have the same range: of one with replayed messages, the others may be lost.
    found = [(gap.first_offset, gap.next_offset, gap.reason, gap.count) for gap in (topic.gaps if topic else ())]
    ranges = {(first, end) for first, end, *_ in found}
    found += [
        (gap.first_offset, gap.next_offset, gap.reason, gap.next_offset - gap.first_offset)
        for gap in (cursor.gaps if cursor else ())
        if (gap.first_offset, gap.next_offset) not in ranges
    ]
    counts: Counter[str] = Counter()
    for _, _, reason, count in found:
        counts["unused" if reason == _NO_MESSAGES else "left out" if reason in _LEFT_OUT else "lost"] += count
    title = ", ".join(
        f"{first:,} to {end - 1:,} ({_REASONS.get(reason, reason)})" for first, end, reason, _ in sorted(found)[-10:]
    )
    parts = [f"{units.plural(counts['lost'], 'message')} lost"] if counts["lost"] else []
    if counts["left out"]:
        parts.append(f"{units.plural(counts['left out'], 'message')} left out")
    if counts["unused"]:
        parts.append(f"{units.plural(counts['unused'], 'unused offset')}")
    text = " · ".join(parts if counts["lost"] else ["none lost", *parts])
    return Cell(text, title, "danger" if counts["lost"] else "")


def _switch(
    topic: str, archived: "ArchivedTopic | None", cursor: "CursorStats | None", role: Role, *, is_present: bool
) -> ActionCell:
    if cursor is not None and archived is not None and archived.is_lost:
        return begin_again_cell(archived, role)
    if cursor is not None:
        return act_cell("Stop archiving…", "archive_off", role, topic)
    return act_cell("Archive…", "archive_on", role, topic) if is_present else ActionCell()


def _replay_table(view: "PipelineView", role: Role, has_queue: bool) -> Table:
    rows = []
    for replay in view.replays:
        request = replay.request
        rows.append(
            (
                replay.replay_id,
                (
                    NameCell(replay.replay_id, url_of("replay", replay.replay_id)),
                    StateCell(replay_chips(replay, view)),
                    Cell(f"{request.topic} → {request.target}" if request else units.UNKNOWN),
                    progress_cell("Published", replay.run_job),
                    rate_cell(replay.run_job),
                    error_cell(replay.run_job or replay.plan_job, view),
                    replay_action(replay, role),
                ),
            )
        )
    empty = (
        Empty("No replay here", _NO_QUEUE)
        if not has_queue
        else Empty(
            "No replay yet",
            "A replay publishes archived messages again, to the same or another topic. It is planned first: you see "
            "how many messages it would publish, and to which channels, before anything happens.",
        )
    )
    return Table.build("replays", "Replays", _REPLAY_COLUMNS, rows, empty)
