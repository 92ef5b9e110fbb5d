"""Setting how long and how much of a topic the archive keeps, and what housekeeping did, on the pages."""

from pathlib import Path

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.pipeline import ArchiveLimits, Pipeline, set_pipeline
from admin_console.vocabulary.roles import Role
from queue_engine.lake.housekeeping.limits import FILE_NAME, read_limits, write_limits
from queue_engine.lake.housekeeping.report import HousekeepingReport, HousekeepingRun, write_report
from queue_engine.service.runner import EngineRunner
from tests.console.pipeline.pages import row, shown
from tests.support.lakes.pipeline_lake import archived_topic
from tests.support.pages.console import client_of, make_user, see, words

pytestmark = pytest.mark.django_db

PAGE = "/topics/orders/~archive-limits/"
DAY_MS = 86_400_000


@pytest.fixture
def browser(engine: EngineRunner) -> Client:
    see(engine)
    return client_of(make_user(role=Role.ADMIN))


def test_the_question_says_what_the_archive_has_and_what_goes(browser: Client, lake: Path) -> None:
    archived_topic(lake, "orders", 3, 0xABC)
    set_pipeline(Pipeline(lake, usual_limits=ArchiveLimits(keep_ms=90 * DAY_MS)))

    said = words(shown(browser, PAGE))
    assert "The archive has 3,000 messages of it, 97.7 KiB, the oldest published at 2026-03-01" in said
    assert "oldest first. This can't be undone" in said
    assert "the default of all topics: 90 days" in said


def test_limits_are_set_changed_and_taken_back(browser: Client, lake: Path) -> None:
    browser.post(PAGE, {"which": "own", "days": "30", "gib": "0.5"})
    assert read_limits(lake) == {"orders": ArchiveLimits(30 * DAY_MS, 1 << 29)}
    again = browser.post(PAGE, {"which": "own", "days": "30", "gib": "0.5"}, headers={"Accept": "application/json"})
    assert again.json()["message"] == "The limits of the archive of orders are so already; nothing was changed."
    form = shown(browser, PAGE)
    assert 'value="30"' in form
    assert 'value="0.5"' in form

    browser.post(PAGE, {"which": "own", "days": "", "gib": "2"})
    assert read_limits(lake) == {"orders": ArchiveLimits(0, 2 << 30)}
    browser.post(PAGE, {"which": "default", "days": "30", "gib": ""})
    assert read_limits(lake) == {}
    results = AuditRow.objects.filter(phase="result", action="set_archive_limits").order_by("id")
    assert [one.detail for one in results] == ["30 days, at most 512.0 MiB"] * 2 + [
        "at most 2.0 GiB",
        "as of all topics",
    ]


def test_what_is_no_limit_is_refused_and_changes_nothing(browser: Client, lake: Path) -> None:
    write_limits(lake, "orders", ArchiveLimits(keep_ms=DAY_MS))
    for form, sentence in (
        ({"which": "own", "days": "0"}, "Keep for: '0' is not a whole number of days from 1 to 36,500."),
        ({"which": "own", "days": "1.5"}, "Keep for: '1.5' is not a whole number of days"),
        ({"which": "own", "gib": "much"}, "Keep at most: 'much' is not a number of GiB from 0.001 to 1,000,000."),
        ({"which": "own", "gib": "0.0001"}, "Keep at most: '0.0001' is not a number of GiB"),
        ({"which": "all"}, "'all' is neither default nor own. Nothing was done."),
    ):
        answer = browser.post(PAGE, form)
        assert answer.status_code == 400, form
        assert sentence in words(answer.content.decode()), form
        assert read_limits(lake) == {"orders": ArchiveLimits(keep_ms=DAY_MS)}, form


def test_a_broken_file_of_limits_is_said_and_left_alone(browser: Client, lake: Path) -> None:
    lake.mkdir()
    (lake / FILE_NAME).write_text("{")

    assert f"{FILE_NAME} is not JSON" in words(shown(browser, PAGE))
    assert f"{FILE_NAME} is not JSON" in words(
        browser.post(PAGE, {"which": "own", "days": "3"}, follow=True).content.decode()
    )
    assert (lake / FILE_NAME).read_text() == "{"


def test_the_pipeline_page_lists_what_housekeeping_did(browser: Client, lake: Path) -> None:
    run = HousekeepingRun(
        at_ms=1_772_375_400_000,
        took_ms=2_400,
        tables=7,
        merged_files=60,
        made_files=2,
        merged_bytes=3 << 20,
        dropped_files=1,
        dropped_rows=1_200,
        dropped_bytes=5 << 20,
        removed_files=40,
        removed_bytes=1 << 20,
        problems=("bills: it is damaged", "clicks: it is damaged"),
    )
    write_report(lake, HousekeepingReport(1_772_375_402_400, {}, (run,)))

    assert row(shown(browser, "/pipeline/"), "housekeeping", "1772375400000") == (
        "2026-03-01 14:30:00 2.4 s 60 files to 2 1,200 messages, 5.0 MiB 40 files, 1.0 MiB"
        " bills: it is damaged and 1 more"
    )
