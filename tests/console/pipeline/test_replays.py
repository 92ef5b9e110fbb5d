"""Replays on the pipeline's pages: asked for, planned, run, and their own pages."""

import re
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.pipeline import (
    get_pipeline,
)
from admin_console.hub.hub import get_hub
from admin_console.screens.build import Request, build_screen
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from queue_engine.lake.archive.summary import ArchivedIncarnation
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.requests import has_requests, read_replay_request, take_requests
from queue_engine.lake.job.state import JobState, write_state
from queue_engine.service.runner import EngineRunner
from tests.console.pipeline.pages import REPLAY, row, shown
from tests.support.lakes.pipeline_lake import archived_topic, planned_replay
from tests.support.pages.console import client_of, make_user, see, words
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

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
    assert re.search(r'data-when="awaits_run">▶ Run…', html)
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
