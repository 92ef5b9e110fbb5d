"""Pipeline cursors of a topic: readers beside its channels, their lag in the log, and the messages that they gave
up."""

from typing import TYPE_CHECKING

from admin_console.gateway.gateway import ARCHIVE_CURSOR, TopicStats
from admin_console.screens.cells import ActionCell, Cell, Chip, StateCell
from admin_console.screens.links import act_cell
from admin_console.screens.parts import Banner, Column, Empty, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.cluster.merging.merged import Place
    from admin_console.gateway.gateway import CursorStats
    from admin_console.gateway.pipeline import ArchivedTopic, PipelineView
    from admin_console.hub.hub import LiveState

_COLUMNS = (
    Column("name", "Cursor", "name"),
    Column("state", "State", "state"),
    Column("depth", "Depth"),
    Column("kept", "Held in the log"),
    Column("gaps", "Given up", "text"),
    Column("action", "Act", "action"),
)


NEW_TABLE = "New table…"
WRITE_MISSING_FILES = "Write missing files…"


_NODE = Column("node", "Node", "text")  # in a cluster, behind the name


def cursors_of(live: "LiveState | None", topic: TopicStats | None) -> "list[tuple[Place | None, CursorStats]]":
    """Those of all nodes that answer, in a cluster each with its place; None for one server."""
    if live is None or topic is None or live.cluster is None:
        return [(None, cursor) for cursor in (topic.cursors if topic else ())]
    places = [place for place in live.cluster.places(topic.topic_name) if place.is_answering]
    return [(at, cursor) for at in places if isinstance(at.stats, TopicStats) for cursor in at.stats.cursors]


def cursor_table(live: "LiveState | None", topic: TopicStats | None, role: Role) -> Table:
    """One row for each cursor."""
    is_cluster = live is not None and live.cluster is not None
    rows = [
        (
            f"{cursor.cursor}@{at.node}" if at is not None else cursor.cursor,
            (
                Cell(
                    cursor.cursor,
                    f"at offset {cursor.offset:,}; the topic ends at {cursor.end_offset:,}"
                    + (f"; made by {cursor.maker}" if cursor.maker else ""),
                ),
                *((Cell(at.node),) if at is not None else ()),
                StateCell(_chips(cursor)),
                Cell(units.number(cursor.depth), units.exact(cursor.depth)),
                Cell(
                    units.byte_count(cursor.lag_bytes),
                    f"{cursor.lag_bytes:,} bytes, including messages of other topics between them",
                    "warning" if cursor.is_warned else "",
                ),
                _gaps(cursor),
                act_cell("Delete…", "delete_cursor", role, cursor.topic, cursor.cursor)
                if at is None or at.is_embedded
                else ActionCell("Delete…", "", f"{at.node} does this at its own console alone."),
            ),
        )
        for at, cursor in cursors_of(live, topic)
    ]
    columns = (_COLUMNS[0], _NODE, *_COLUMNS[1:]) if is_cluster else _COLUMNS
    return Table.build("cursors", "Pipeline cursors of the topic", columns, rows, Empty("", "There is none."))


def is_archived(topic: TopicStats) -> bool:
    return any(cursor.cursor == ARCHIVE_CURSOR for cursor in topic.cursors)


def lost_archive(topic: TopicStats, pipeline: "PipelineView | None") -> "ArchivedTopic | None":
    """The archive of a topic, when it is on and its table is lost."""
    keys = {(one.topic, one.number, one.id_base) for one in topic.cursors if one.cursor == ARCHIVE_CURSOR}
    archived = pipeline.topics if pipeline is not None and keys else ()
    return next((one for one in archived if one.is_lost and (one.topic, one.number, one.id_base) in keys), None)


def lost_archive_banner(archived: "ArchivedTopic", role: Role) -> Banner:
    problem = "files of its archive are missing" if archived.is_partial else "the table of its archive is lost"
    return Banner("danger", f"Not archived: {problem}.", archived.error, acts=(begin_again_cell(archived, role),))


def begin_again_cell(archived: "ArchivedTopic", role: Role) -> ActionCell:
    """The act for an archive that is lost, or lacks files."""
    label = WRITE_MISSING_FILES if archived.is_partial else NEW_TABLE
    return act_cell(label, "archive_again", role, archived.topic)


def _chips(cursor: "CursorStats") -> tuple[Chip, ...]:
    if not cursor.is_warned:
        return ()
    lag, limit = units.byte_count(cursor.lag_bytes), units.byte_count(cursor.retention_bytes)
    share = units.share(cursor.lag_bytes, cursor.retention_bytes)
    return (Chip(f"▲ {share} of its limit", "warning", f"{lag} of {limit} are held; beyond that it gives up messages"),)


def _gaps(cursor: "CursorStats") -> Cell:
    if not cursor.gaps:
        return Cell("nothing")
    last = cursor.gaps[-1]
    ranges = [f"{one.first_offset:,} to {one.next_offset - 1:,} ({one.reason})" for one in cursor.gaps[-10:]]
    return Cell(
        f"{units.plural(len(cursor.gaps), 'gap')}, the last: offsets {last.first_offset:,} to {last.next_offset - 1:,} "
        f"({last.reason})",
        f"offsets {', '.join(ranges)}",
        "danger",
    )
