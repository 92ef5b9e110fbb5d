"""Errors of the libraries, as they really were, and what is made of them."""

import errno

import pytest

from queue_engine.lake.tables.store_errors import first_line, table_error
from queue_engine.vocabulary.errors import (
    PipelineError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnreachableError,
    TableDamagedError,
)

PLACE = "s3://lake/503/archive"
GENERIC = "Kernel error -> Generic S3 error Error performing GET http://127.0.0.1/lake/403/507/a?x=503 in 507.403ms"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{GENERIC}, after 3 retries - HTTP error error sending request", StoreUnreachableError),
        (f"{GENERIC} - Server returned non-2xx status code 503 Service Unavailable <Code>SlowDown", StoreBusyError),
        (f"{GENERIC} - Server returned non-2xx status code 500 Internal Server Error", StoreUnreachableError),
        (f"{GENERIC} - Server returned non-2xx status code 403 Forbidden <Code>AccessDenied", StoreRefusedError),
        (f"{GENERIC} - Server returned non-2xx status code 404 <Code>NoSuchBucket", StoreRefusedError),
        (f"{GENERIC} - status code 507 Insufficient Storage <Code>XMinioStorageFull", StoreFullError),
        (f"{GENERIC} - something new", StoreError),
        (
            "When writing key '503/403' in bucket 'lake': AWS Error NETWORK_CONNECTION during PutObject",
            StoreUnreachableError,
        ),
        (
            "When reading key 'a' in bucket 'b': AWS Error UNKNOWN (HTTP status 400) during HeadObject",
            StoreRefusedError,
        ),
        ("When writing key 'a' in bucket 'b': AWS Error SLOW_DOWN during PutObject operation", StoreBusyError),
        ("When writing key 'a' in bucket 'b': AWS Error UNKNOWN (HTTP status 507) during PutObject", StoreFullError),
        ("Kernel error: Arrow error: EOF: file size of 4 is less than footer", TableDamagedError),
        ("Kernel error: Json error: Truncated record whilst reading colon", TableDamagedError),
        ("Kernel error: Arrow error: Parquet error: Invalid Parquet file. Corrupt footer", TableDamagedError),
        (
            "Kernel error: Generic delta kernel error: Expected contiguous commit files, but found gap: Parsed",
            TableDamagedError,
        ),
        (
            "Kernel error: Invalid Checkpoint: Had a _last_checkpoint hint but didn't find any checkpoints",
            TableDamagedError,
        ),
    ],
)
def test_an_error_of_a_store_has_its_class(text: str, kind: type[PipelineError]) -> None:
    error = table_error(OSError(text), PLACE)
    assert type(error) is kind
    assert str(error).startswith(PLACE)


def test_a_full_disk_is_named() -> None:
    assert type(table_error(OSError(errno.ENOSPC, "No space left on device"), "/lake/a")) is StoreFullError


def test_credentials_are_cut_out_of_an_unknown_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "abcdefgh")
    assert first_line("odd abcdefgh text\n  1: <unknown>") == "odd … text"
