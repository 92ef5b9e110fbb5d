"""Jobs of the pipeline: the state, the progress and the failure of each."""

from typing import TYPE_CHECKING

from admin_console.gateway.pipeline import JOB_SENTENCES
from admin_console.screens.cells import ActionCell, Cell, Chip, ProgressCell, StateCell, TimesCell
from admin_console.screens.links import act_cell
from admin_console.screens.parts import Banner, Column, Empty, Table
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role

if TYPE_CHECKING:
    from admin_console.gateway.pipeline import JobState, PipelineView

# The jobs that always exist, in the order in which data flows through them.
ARCHIVE = "archive"
JOBS = (ARCHIVE, "housekeeping", "rollup", "compact")

_JOB_COLUMNS = (
    Column("name", "Job", "name"),
    Column("state", "State", "state"),
    Column("progress", "Progress", "progress"),
    Column("lag", "Behind"),
    Column("rate", "Rate"),
    Column("error", "Last error", "text"),
    Column("action", "Act", "action"),
)

_RUN_COLUMNS = (
    Column("at", "Run (UTC)", "text"),
    Column("took", "Took"),
    Column("merged", "Merged", "text"),
    Column("dropped", "Beyond limits", "text"),
    Column("removed", "Removed", "text"),
    Column("problem", "Problem", "text"),
)

HOUSEKEEPING_SHOWN_MAX = 10

_TONES = {"failed": "warning", "stopped": "held", "cancelled": "held"}
_SIGNS = {"failed": "▲ ", "stopped": "❚❚ "}


def job_chips(state: "JobState | None", view: "PipelineView") -> tuple[Chip, ...]:
    """A job's state in a word. "running" in its file counts only while a process has the lake's lock."""
    if state is None:
        return (Chip("not run yet"),)
    word = state.state
    if word in ("running", "waiting"):
        if view.holder is None:
            return (Chip("waiting", "", "No worker is running; the job continues when one is."),)
        if state.is_partly_failed:
            return (Chip("▲ in part", "warning", "A part of its work failed and is tried again; the rest continues."),)
        if state.is_in_trouble:
            return (Chip("▲ trying again", "warning", "Its last run failed, and this one has made no progress yet."),)
    title = "Nothing to do now; it checks again by itself." if word == "waiting" and state.job in JOB_SENTENCES else ""
    return (Chip(f"{_SIGNS.get(word, '')}{word}", _TONES.get(word, ""), title),)


def progress_cell(label: str, state: "JobState | None", behind: int | None = None) -> ProgressCell:
    """The bar of a job, counted in its unit. behind: the rest of its work now, if it is available: the job's own
    total is of its last report."""
    if state is None or not state.total:
        return ProgressCell(label, 0, 0, units.UNKNOWN)
    done = min(state.done, state.total)
    total = state.total if behind is None else done + behind
    title = f"{done:,} of {total:,} {state.unit}"
    return ProgressCell(label, done, total, units.share(done, total), title)


def rate_cell(state: "JobState | None") -> Cell:
    return Cell(units.rate(state.rows_per_s) if state and state.state == "running" else units.UNKNOWN)


def error_cell(state: "JobState | None", view: "PipelineView") -> Cell:
    """Why a job failed, and whether it is tried again."""
    if state is None or not state.error:
        return Cell("")
    if not state.is_in_trouble or view.holder is None:
        return Cell(state.error, "", "warning" if state.state == "failed" else "muted")
    when = again(state)
    return Cell(f"{state.error} {when[0].upper()}{when[1:]}." if when else state.error, "", "warning")


def trouble(view: "PipelineView") -> Banner | None:
    """A sentence about the jobs that failed or are tried again; None where all is well."""
    found = jobs_in_trouble(view)
    if not found:
        return None
    worst = found[0]
    more = f" {len(found) - 1} more failed." if len(found) > 1 else ""
    when = again(worst)
    if worst.is_partly_failed:
        return Banner("warning", f"A part of the job {worst.job} failed; it is {when}.", worst.error + more)
    return Banner("warning", f"The job {worst.job} failed{f'; it is {when}' if when else ''}.", worst.error + more)


def jobs_in_trouble(view: "PipelineView") -> "list[JobState]":
    """Those that failed, the worst first: a job that has given up, then one that waits, then one that tries again."""
    found = [state for state in view.jobs.values() if state.is_in_trouble]
    if view.holder is None:
        found = [state for state in found if state.state == "failed"]
    return sorted(found, key=lambda state: (state.state != "failed", state.next_try_ms))


def again(state: "JobState") -> str:
    """When a job that failed is tried again: words that go on from "it is"; "" when it is not."""
    if state.state != "failed" and not state.is_partly_failed:
        return "being tried again now"
    left_s = (state.next_try_ms - units.now_ms()) / 1000
    if left_s >= 1:
        return f"tried again in {units.duration(int(left_s))}"
    return "tried again now" if state.next_try_ms else "tried again by itself" if state.job in JOB_SENTENCES else ""


def job_table(view: "PipelineView", role: Role, to_archive: int | None) -> Table:
    """The table of the jobs that always exist. to_archive: how many messages the archive is behind, as the engine's
    cursors have it; None for unknown."""
    rows = []
    for name in JOBS:
        state = view.jobs.get(name)
        is_stopped = state is not None and state.state == "stopped"
        behind = to_archive if name == ARCHIVE else None
        rows.append(
            (
                name,
                (
                    Cell(name, JOB_SENTENCES[name]),
                    StateCell(job_chips(state, view)),
                    progress_cell("Progress", state, behind),
                    _lag(state) if behind is None else Cell(units.number(behind)),
                    rate_cell(state),
                    error_cell(state, view),
                    _switch(name, view, role, is_stopped=is_stopped),
                ),
            )
        )
    return Table.build("jobs", "Jobs of the pipeline", _JOB_COLUMNS, rows, Empty("", "There are no jobs."))


def _switch(name: str, view: "PipelineView", role: Role, *, is_stopped: bool) -> ActionCell:
    if is_stopped:
        return act_cell("Start…", "start_job", role, name)
    # Without a worker there is nothing to stop.
    if not view.is_switched_on and view.holder is None:
        return ActionCell()
    return act_cell("Stop…", "stop_job", role, name)


def housekeeping_table(view: "PipelineView") -> Table:
    """The changes of the last runs of housekeeping, the newest first."""
    rows = []
    for run in view.housekeeping.runs[:HOUSEKEEPING_SHOWN_MAX]:
        dropped = f"{units.plural(run.dropped_rows, 'message')}, {units.byte_count(run.dropped_bytes)}"
        removed = f"{units.plural(run.removed_files, 'file')}, {units.byte_count(run.removed_bytes)}"
        merged = f"{units.plural(run.merged_files, 'file')} to {units.number(run.made_files)}"
        more = f" and {len(run.problems) - 1} more" if len(run.problems) > 1 else ""
        rows.append(
            (
                str(run.at_ms),
                (
                    TimesCell((run.at_ms,), f"{units.plural(run.tables, 'table')} looked at"),
                    Cell(units.duration(run.took_ms / 1000)),
                    Cell(merged, units.byte_count(run.merged_bytes)) if run.merged_files else Cell("nothing"),
                    Cell(dropped, f"in {units.plural(run.dropped_files, 'file')}")
                    if run.dropped_files
                    else Cell("nothing"),
                    Cell(removed, "that no version of the last days needs") if run.removed_files else Cell("nothing"),
                    Cell(f"{run.problems[0]}{more}", "; ".join(run.problems), "warning") if run.problems else Cell(""),
                ),
            )
        )
    looked = view.housekeeping.looked_ms
    empty = Empty(
        "Nothing to tidy yet",
        f"Housekeeping looked at every table at {units.moment(looked)} UTC and found nothing to do."
        if looked
        else "Housekeeping merges small files of the archive, and removes messages beyond a topic's limits. It has not "
        "run yet.",
    )
    return Table.build("housekeeping", "Last runs of housekeeping", _RUN_COLUMNS, rows, empty)


def _lag(state: "JobState | None") -> Cell:
    """Unknown for a job that rests after a failure: its last report is older than the failure."""
    if state is None or state.lag is None or state.state == "failed":
        return Cell(units.UNKNOWN)
    return Cell(units.number(state.lag), f"{state.lag:,} {state.unit}")
