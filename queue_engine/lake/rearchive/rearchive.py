"""Writes lost messages of an archive again, whose table, its newest commits or files are gone: `pipeline rearchive`.

    python -m queue_engine.lake.rearchive.rearchive orders --from 2026-11-20T00:00:00Z --dry-run

The command makes the archive's cursor anew where the log is to be read. The archive job finds the loss and goes on
there, each message once. The server runs meanwhile, its worker too. The command can be killed and run again.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import ArchivedIdentity, archive_table
from queue_engine.lake.archive.gaps import Gaps
from queue_engine.lake.archive.repair import Repair, missing_sentence, plan_repair
from queue_engine.lake.archive.summary import ArchivedTopic, read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.archive_settings import LAKE
from queue_engine.lake.jobs import ENGINE_URL_DEFAULT, add_data_path
from queue_engine.lake.source.wanted_range import synced_messages
from queue_engine.lake.spark.secret_variables import take_token
from queue_engine.lake.spark.worker_limits import add_option
from queue_engine.lake.tables.missing_files import missing_files
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.lake.variables import ENGINE_URL_VARIABLE
from queue_engine.vocabulary import log_lines
from queue_engine.vocabulary.errors import PenstockError, PipelineError
from queue_engine.vocabulary.names import ARCHIVE_CURSOR
from queue_engine.wire.topic_state import TopicState

SENTENCE = "write lost messages of an archive again: of its table, of an earlier state of it, or of files of it"
# The log keeps the messages while the cursor is made anew.
_LEASE_MS = 60_000


def command_line() -> argparse.ArgumentParser:
    """The parser of `penstock pipeline rearchive`."""
    parser = argparse.ArgumentParser("pipeline rearchive", description=SENTENCE)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--from",
        dest="start",
        default="0",
        metavar="OFFSET|TIME",
        help="read from this offset on, or from the first message of this time, such as 2026-11-20T00:00:00Z (default: "
        "the oldest message that the log has)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print how much it would read and write, and do nothing")
    parser.add_argument(
        "--engine-url",
        default=os.environ.get(ENGINE_URL_VARIABLE, ENGINE_URL_DEFAULT),
        help=f"the engine's HTTP API (default: ${ENGINE_URL_VARIABLE}, else {ENGINE_URL_DEFAULT})",
    )
    add_data_path(parser)
    add_option(parser, LAKE)
    return parser


def rearchive(engine: LogClient, lake: Lake, tables: LakeTables, topic: str, start: str, *, is_dry: bool) -> str:
    """Make the cursor of an archive anew that has lost messages. start: an offset, or a time with its zone. Returns
    the sentences about it. Raises PipelineError where the table lacks nothing."""
    state = engine.topic(topic, time_ms=None if start.isdecimal() else _time_ms_of(start))
    identity = ArchivedIdentity(topic, engine.server(), state.number, state.id_base)
    cursor = next((one for one in engine.cursor_list() if (one.topic, one.cursor) == (topic, ARCHIVE_CURSOR)), None)
    entry = (read_summary(lake) or {}).get(topic)
    if entry is not None and (
        entry.table_version < 0 or ArchivedIdentity(topic, entry.server, entry.number, entry.id_base) != identity
    ):
        entry = None  # of an earlier topic of the name
    table = archive_table(tables, topic)
    archived = table.transaction(identity.app_id)
    lost_end = entry.next_offset if entry is not None else 0 if cursor is None else cursor.offset
    if archived is None and lost_end == 0:
        raise PipelineError(
            f"{topic}, number {state.number}, was never archived here: "
            + ("use Archive… on its page" if cursor is None else "its archive is on, and begins at offset 0 by itself")
            + "; nothing was done"
        )
    start_offset = int(start) if start.isdecimal() else state.time_offset or 0
    missing = missing_files(table) if table.exists() else []
    repair = plan_repair(tables, identity, state, missing, start_offset) if missing else None
    sentences: list[str] = []
    offsets: list[int] = []
    if repair is not None:
        sentence = missing_sentence(table, missing, identity, Gaps(tables).read(topic))
        sentences += _repaired(repair, sentence, is_dry=is_dry)
        offsets += [first for first, _ in repair.readable[:1]]
    if archived is None or archived < lost_end:
        begin, begun = _begun_again(state, table, archived, lost_end, start_offset, entry, is_dry=is_dry)
        sentences += begun
        is_noticed = entry is None or entry.is_table_lost
        if not (is_dry or is_noticed) and begin > max(archived or 0, state.oldest_offset):
            # To the job this looks like "Archive… from now on" by an operator who has not seen the loss: it stops.
            raise PipelineError(
                f"--from {start}: messages of the log are given up only once the archive job shows that the table "
                f"{table.place} is lost. Nothing was done. Run the job (penstock pipeline run archive --once), and "
                "then this command again; or leave --from out"
            )
        offsets.append(begin)
    elif repair is not None:
        offsets.append(max(archived, state.oldest_offset))
    else:
        raise PipelineError(
            f"the table {table.place} lacks nothing that was archived: it ends at offset {archived:,}, and the archive "
            "goes on there by itself; nothing was done"
        )
    if not is_dry:
        at = min(offsets)
        lease = engine.lease(topic, max(at, state.oldest_offset), ttl_ms=_LEASE_MS)
        # In one act: killed before it, nothing was done; behind it, the archive is on.
        engine.cursor_begin_anew(topic, ARCHIVE_CURSOR, offset=at)
        engine.release(lease.lease)
    return "\n".join(sentences)


def _repaired(repair: Repair, missing: str, *, is_dry: bool) -> list[str]:
    """The sentences about files that are missing."""
    removes, gets = ("would remove", "would get") if is_dry else ("removes", "gets")
    if count := repair.readable_count:
        reads, writes, removes = ("Would read", "write", "remove") if is_dry else ("Reads", "writes", removes)
        act = (
            f"{reads} {count:,} messages of these offsets from the log, {writes} each once, and {removes} the missing "
            "files from the table, about a step's messages in each commit."
        )
    else:
        act = f"No message of these offsets is read from the log: the job {removes} the missing files from the table."
    sentences = [f"{missing}.", act]
    if lost := repair.unreadable_count:
        sentences.append(
            f"{lost:,} messages of these files are not read from the log: archive_gaps {gets} them as lost."
        )
    return sentences


def _begun_again(
    state: TopicState,
    table: LakeTable,
    archived: int | None,
    lost_end: int,
    start_offset: int,
    entry: ArchivedTopic | None,
    *,
    is_dry: bool,
) -> tuple[int, list[str]]:
    """Where an archive begins again whose table is lost or ends early, and the sentences about it."""
    begin = min(max(start_offset, state.oldest_offset, archived or 0), state.synced_offset)
    count = synced_messages(state).count_between(begin, state.synced_offset)
    reads, writes, begins = ("Would read", "and write", "Would begin") if is_dry else ("Reads", "and writes", "Begins")
    found, to = ("is gone", "a new table") if not table.exists() else ("has nothing of this topic", "the table")
    if archived is not None:
        found = f"ends at offset {archived:,}"
    sentences = [f"The archive of {state.topic} had come to offset {lost_end:,}, and its table {table.place} {found}."]
    sentences.append(
        f"{reads} {count:,} messages of the log, from offset {begin:,} up to {state.synced_offset:,}, {writes} each "
        f"once to {to} there, and then the messages published meanwhile."
        if count
        else f"{begins} again at offset {begin:,}, in {to}, with the messages that are published from now on."
    )
    first = archived if archived is not None else entry.first_offset if entry is not None else 0
    if begin > first:
        gets = "would get" if is_dry else "gets"
        sentences.append(
            f"Offsets {first:,} to {begin - 1:,} stay missing: archive_gaps {gets} those that were archived as lost."
        )
    return begin, sentences


def _time_ms_of(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise PipelineError(f"--from {text[:80]} is neither an offset nor a time such as 2026-11-20T00:00:00Z") from exc
    if moment.tzinfo is None:
        raise PipelineError(f"--from {text[:80]} has no zone: write {text[:80]}Z for UTC")
    return int(moment.astimezone(UTC).timestamp() * 1000)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    log_lines.configure(os.environ)
    given = command_line().parse_args(arguments)
    pipeline = Path(given.data_path).absolute() / "pipeline"
    try:
        tables = LakeTables(TableStorage(given.lake or str(pipeline)), is_holder=False)
        with LogClient(given.engine_url, take_token(os.environ)) as engine:
            sentence = rearchive(engine, Lake(str(pipeline)), tables, given.topic, given.start, is_dry=given.dry_run)
    except (PenstockError, OSError, ModuleNotFoundError) as exc:
        sys.stderr.write(f"penstock: {exc}\n")
        return 2
    sys.stdout.write(f"{sentence}\n")
    return 0


if __name__ == "__main__":
    log_lines.log_uncaught()
    sys.exit(main(sys.argv[1:]))
