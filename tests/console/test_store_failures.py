"""What the Pipeline page says of each kind of failure of a store or a table: one sentence that ends with what to do."""

import html
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from admin_console.vocabulary.roles import Role
from queue_engine.lake.job.error_sentences import sentence_of
from queue_engine.lake.job.state import FAILED, JobState, write_state
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.store_errors import table_error
from queue_engine.lake.tables.tables import LakeTables
from queue_engine.vocabulary.errors import PipelineError
from tests.console.pipeline.pages import row, shown, switch_on
from tests.pipeline.tables.table_places import APP, PATH, SCHEMA, data_file
from tests.support.pages.console import client_of, console_engine, make_user, see, words

pytestmark = pytest.mark.django_db

# As long as names may be: what to do comes last, and must not be cut off.
PLACE = f"s3://{'b' * 63}/production/eu-central-1/archive/{'t' * 64}"
KEY_ID, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

# What the libraries say, with what the store has quoted, and how the page's sentence ends.
OF_STORES = {
    f"PutObject: 404 <Code>NoSuchBucket</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId>": (
        "there is no such bucket; make it, or give --lake another place."
    ),
    f"400 Bad Request <Code>ExpiredToken</Code><Token>{SECRET}</Token>": (
        "the credentials have expired; start the server with new ones in its environment."
    ),
    f"403 Forbidden <Code>InvalidAccessKeyId</Code><AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId>": (
        "they are wrong, have expired, or may not read, write, list and remove there."
    ),
    "status code 507 Insufficient Storage <Code>XMinioStorageFull</Code>": (
        "there is no room left; make room, and the job goes on by itself."
    ),
    "503 Service Unavailable <Code>SlowDown</Code>": (
        "the store wants fewer requests; the job waits and goes on by itself."
    ),
    "error sending request: connection refused": (
        "the job waits and goes on by itself. See AWS_ENDPOINT_URL, the network and the store's own log."
    ),
    f"Generic S3 error: something new about {SECRET}": "Generic S3 error: something new about ….",
}


def changed_columns(table: Path) -> None:
    one = pa.table({"offset": [1], "place": ["x"], "date": pa.array([0], pa.date32())})
    write_deltalake(table, one, mode="append", schema_mode="merge")


def damaged_commit(table: Path) -> None:
    log = table / "_delta_log"
    (log / f"{1:020d}.json").write_bytes(b'{"add"')


def missing_commit(table: Path) -> None:
    (table / "_delta_log" / f"{1:020d}.json").unlink()


def unknown_feature(table: Path) -> None:
    version = DeltaTable(table).version() + 1
    action = (
        b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["new"],"writerFeatures":["new"]}}'
    )
    (table / "_delta_log" / f"{version:020d}.json").write_bytes(action)


def another_writer(table: Path) -> None:
    other = LakeTables(TableStorage(table.parent.parent)).open(PATH, SCHEMA)
    other.commit([], APP, 31, after=30)


# What somebody else did to a table, and how the page's sentence ends.
OF_TABLES: dict[Callable[[Path], None], str] = {
    changed_columns: "Undo that change, or move the table away, so that a new one begins.",
    damaged_commit: "or move the table's directory away, so that a new one begins.",
    missing_commit: "or move the table's directory away, so that a new one begins.",
    unknown_feature: "Use the program that switched them on to switch them off, or move the table away.",
    another_writer: "another writer commits for it; see that only one server archives here.",
}


def of_table(directory: Path, change: Callable[[Path], None]) -> PipelineError:
    """What the next commit of the archive raises, once somebody else has changed its table."""
    storage = TableStorage(directory)
    tables = LakeTables(storage)
    for first in (0, 10, 20):
        table = tables.open(PATH, SCHEMA)
        table.commit([data_file(storage, first, first + 10)], APP, first + 10, after=first or None)
    change(directory / PATH)
    with pytest.raises(PipelineError) as caught:
        LakeTables(storage).open(PATH, SCHEMA).commit([data_file(storage, 30, 40)], APP, 40, after=30)
    return caught.value


def test_each_failure_is_one_sentence_with_what_to_do_and_without_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_console.gateway.pipeline.FRESH_FOR_S", 0)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    cases: list[tuple[PipelineError, str]] = [
        (table_error(OSError(text), PLACE), end) for text, end in OF_STORES.items()
    ]
    cases += [(of_table(tmp_path / change.__name__, change), end) for change, end in OF_TABLES.items()]
    lake = tmp_path / "pipeline"
    browser = client_of(make_user(role=Role.OPERATOR))
    with console_engine(tmp_path) as engine:
        switch_on(lake)
        for error, end in cases:
            write_state(lake, JobState("archive", FAILED, error=sentence_of(error)))
            see(engine)
            page = shown(browser)
            said = row(page, "jobs", "archive").removesuffix(" Stop…")
            assert said.endswith(end), said
            assert said.count(PLACE) + said.count(PATH) == 1, said
            assert said.removeprefix("archive ▲ failed – – – ") in words(page).split("The job archive failed")[1]
            assert KEY_ID not in html.unescape(page)
            assert SECRET not in html.unescape(page)
