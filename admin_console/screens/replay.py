"""One replay: the plan that its dry run made, and the progress of its run."""

from typing import TYPE_CHECKING, Any

from admin_console.gateway.replay_sources import left_out, left_out_sentence, source_words
from admin_console.permissions.table import ACTS, CONTENTS, LEAST_ROLES
from admin_console.screens.cells import Cell, NameCell, StateCell
from admin_console.screens.jobs import again, error_cell, progress_cell, rate_cell
from admin_console.screens.links import url_of
from admin_console.screens.parts import Banner, Column, Empty, Stat, Table
from admin_console.screens.pipeline import replay_chips
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from admin_console.vocabulary.units import moment

if TYPE_CHECKING:
    from admin_console.gateway.pipeline import JobState, PipelineView, ReplayView

_PROGRESS_COLUMNS = (
    Column("state", "State", "state"),
    Column("progress", "Published", "progress"),
    Column("rate", "Rate"),
    Column("left", "Left"),
    Column("error", "Last error", "text"),
)
_CHANNEL_COLUMNS = (Column("name", "Channel", "name"),)
_FACT_COLUMNS = (Column("what", "", "text"), Column("value", "", "text"))


def parts(role: Role, view: "PipelineView", replay_id: str) -> dict[str, Any]:
    """The parts of the screen; `flags["gone"]` when there is no such replay."""
    replay = view.replay(replay_id)
    if replay is None:
        return {"flags": {"gone": True}, "tables": {}}
    return {
        "subtitle": _subtitle(replay),
        "chips": replay_chips(replay, view),
        "banner": _banner(replay, view, role),
        "stats": _stats(replay),
        "tables": {
            "progress": _progress_table(replay, view),
            "facts": _fact_table(replay, role),
            "receivers": _channel_table(replay),
        },
        "flags": {
            "gone": False,
            "awaits_run": replay.awaits_run,
            "discardable": replay.run_job is None,
            "under_way": replay.run_job is not None and not replay.is_over,
        },
    }


def _subtitle(replay: "ReplayView") -> str:
    return f"{replay.request.topic} → {replay.request.target}" if replay.request else ""


def _banner(replay: "ReplayView", view: "PipelineView", role: Role) -> Banner | None:
    if replay.run_job is not None:
        if replay.run_job.state == "failed":
            return _failure("failed", replay.run_job, view)
        return None
    if replay.planned is not None:
        if not replay.planned.count:
            nothing = ["Running this replay would publish nothing.", *filter(None, [left_out_sentence(replay.planned)])]
            return Banner("", "No archived message matches.", " ".join(nothing))
        least = ACTS["run_replay"]
        until = (
            "until you run it. Run and Discard are above."
            if role.includes(least)
            else f"until it is run, which needs the role {least.value}."
        )
        return Banner(
            "",
            f"This would publish {units.plural(replay.planned.count, 'message')}.",
            " ".join(
                filter(None, [left_out_sentence(replay.planned), f"It is a dry run: nothing is published {until}"])
            ),
        )
    if replay.plan_job is not None and replay.plan_job.state == "failed":
        return _failure("can't be planned", replay.plan_job, view)
    return Banner("", "Being planned.", f"{_planner(view)} Planning publishes nothing.")


def _failure(label: str, job: "JobState", view: "PipelineView") -> Banner:
    """That planning or running it failed, and whether that is tried again by itself."""
    when = again(job) if view.holder is not None else "tried again once a worker runs"
    return Banner("warning", f"The replay {label}{f'; it is {when}' if job.next_try_ms else ''}.", job.error)


def _planner(view: "PipelineView") -> str:
    """A sentence about the wait of the plan."""
    if view.holder is not None and (view.worker_state is None or view.worker_state.state == "ready"):
        return "The worker counts matching messages."
    if view.holder is not None or (view.process is not None and view.process.word in ("idle", "resting", "running")):
        return "The worker is starting."
    return "A worker has to start first."


def _stats(replay: "ReplayView") -> tuple[Stat, ...]:
    planned, run = replay.planned, replay.run_job
    unknown = Cell(units.UNKNOWN)
    return (
        Stat(
            "messages",
            "Messages",
            Cell(units.number(planned.count), units.exact(planned.count)) if planned else unknown,
            Cell("that match"),
        ),
        Stat("files", "Files", Cell(units.number(planned.file_count)) if planned else unknown, Cell("of the archive")),
        Stat(
            "receivers",
            "Receivers",
            Cell(units.number(len(planned.channels))) if planned else unknown,
            Cell("channel of the target" if planned and len(planned.channels) == 1 else "channels of the target"),
        ),
        Stat("done", "Published", Cell(units.number(run.done), units.exact(run.done)) if run else unknown),
        Stat(
            "rate",
            "Rate",
            Cell(units.rate(run.rows_per_s)) if run and run.state == "running" else unknown,
            Cell(_limit(replay)),
        ),
        Stat("left", "Left", Cell(units.duration(_left_s(replay)))),
    )


def _limit(replay: "ReplayView") -> str:
    if replay.request is None or replay.request.rate_per_s is None:
        return "no limit"
    return f"at most {units.number(replay.request.rate_per_s)}/s"


def _left_s(replay: "ReplayView") -> float | None:
    run = replay.run_job
    if run is None or run.state != "running" or not run.rows_per_s or not run.total:
        return None
    return (run.total - run.done) / run.rows_per_s


def _progress_table(replay: "ReplayView", view: "PipelineView") -> Table:
    job = replay.run_job or replay.plan_job
    row = (
        StateCell(replay_chips(replay, view)),
        progress_cell("Published", job),
        rate_cell(job),
        Cell(units.duration(_left_s(replay))),
        error_cell(job, view),
    )
    return Table.build("progress", "Progress", _PROGRESS_COLUMNS, [("progress", row)], Empty("", "No figures yet."))


def _fact_table(replay: "ReplayView", role: Role) -> Table:
    request = replay.request
    facts: list[tuple[str, str]] = []
    if request is not None:
        rest = left_out(replay.planned) if replay.planned else ""
        which = source_words(replay.planned) if replay.planned else ""
        start, end = f"{moment(request.start_time_ms)} UTC", f"{moment(request.end_time_ms)} UTC"
        facts = [
            ("Archived topic", f"{request.topic}, {which}" if rest else request.topic),
            *([("Left out", rest)] if rest else []),
            ("Published to", request.target),
            ("From", start if request.start_time_ms is not None else "the beginning of the archive"),
            ("To", f"before {end}" if request.end_time_ms is not None else "its end"),
            ("Key", _of_contents(request.key, role) or "any"),
            ("Expression", _of_contents(request.expression, role) or "none: every message"),
            ("Rate limit", _limit(replay)),
        ]
    rows = [(label, (Cell(label, tone="muted"), Cell(value))) for label, value in facts]
    return Table.build("facts", "Request", _FACT_COLUMNS, rows, Empty("", "The request can't be read."))


def _of_contents(text: str, role: Role) -> str:
    """A key, or an expression that may name one."""
    least = Role(LEAST_ROLES[CONTENTS])
    return text if not text or role.includes(least) else f"shown to the role {least}"


def _channel_table(replay: "ReplayView") -> Table:
    target = replay.request.target if replay.request else ""
    channels = replay.planned.channels if replay.planned else ()
    rows = [(name, (NameCell(name, url_of("channel", target, name)),)) for name in channels] if target else []
    text = (
        "The target has no channel: the messages would stay at the topic until there is one."
        if replay.planned
        else "Available once the replay is planned."
    )
    return Table.build("receivers", "Channels that receive them", _CHANNEL_COLUMNS, rows, Empty("", text))
