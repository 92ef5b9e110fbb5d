"""The stat of open replays: what each of them waits for."""

from admin_console.gateway.pipeline import LakeHolder, PipelineView, ReplayPlanSummary, ReplayView
from admin_console.screens import pipeline as screens_pipeline
from admin_console.vocabulary.roles import Role
from queue_engine.lake.job.state import JobState

REPLAY = "0190c6a0-7c11-7000-8000-000000000000"


def test_open_replays_say_what_each_waits_for() -> None:
    plan = ReplayPlanSummary(3, 1, ())

    def note(*replays: tuple[ReplayPlanSummary | None, str, str], holder: LakeHolder | None = None) -> tuple[str, str]:
        """replays: the plan, and the states of the jobs that plan and run it, "" for none."""
        made = tuple(
            ReplayView(REPLAY, None, planned, *(JobState(f"replay-{REPLAY}", one) if one else None for one in states))
            for planned, *states in replays
        )
        stats = screens_pipeline.parts(None, Role.OPERATOR, PipelineView(None, holder, None, {}, (), made, False, ()))[
            "stats"
        ]
        stat = next(one for one in stats if one.name == "replays")
        return stat.value.text, stat.note.text

    held = LakeHolder(7, "here", 1, "worker")
    assert note() == note((plan, "done", "done"), (plan, "done", "cancelled")) == ("0", "none under way")
    assert note((None, "waiting", "")) == ("1", "1 to be planned")
    assert note((None, "running", ""), holder=held) == ("1", "1 being planned")
    assert note((None, "failed", "")) == ("1", "1 with a failed plan")
    assert note((plan, "done", "")) == ("1", "1 to run or discard")
    assert note((plan, "done", "stopped")) == ("1", "1 stopped")
    several = ((plan, "done", "running"), (plan, "done", ""), (plan, "done", ""), (plan, "done", "failed"))
    assert note(*several, holder=held) == ("4", "2 to run or discard, 1 failed, 1 running")
