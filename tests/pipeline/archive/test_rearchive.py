"""`penstock pipeline rearchive`: an archive whose table is lost begins again, with a real engine."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import archive_path
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.rearchive import rearchive
from queue_engine.vocabulary.errors import ArchiveFilesMissingError, ArchiveLostError
from tests.pipeline.archive_reading import archive_of, archive_once, cursor_of, job, publish, switch_on
from tests.pipeline.local_tasks import LocalTasks
from tests.support.processes.engine_process import EngineProcess

BODIES = [b"%d" % number for number in range(30)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    """The topic `orders`, whose archive has 20 of 30 messages, and no table any more."""
    with EngineProcess(tmp_path / "data", options=["--storage=log"]) as engine:
        publish(engine, "orders", BODIES[:20])
        switch_on(engine, "orders")
        lake = lake_of(tmp_path)
        archive(lake, engine)
        shutil.rmtree(lake.within(archive_path("orders")))
        publish(engine, "orders", BODIES[20:])
        with pytest.raises(ArchiveLostError, match=r"orders was archived up to offset 20, .* is gone"):
            archive(lake, engine)
        yield engine


def lake_of(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "data" / "pipeline"))


def archive(lake: Lake, engine: EngineProcess) -> None:
    tasks: Any = LocalTasks()
    with lake.lock():
        archive_once(job(tasks, lake, engine).context)


def run(engine: EngineProcess, tmp_path: Path, *arguments: str) -> int:
    url = f"http://127.0.0.1:{engine.http_port}"
    return rearchive.main(["orders", "--engine-url", url, "--data-path", str(tmp_path / "data"), *arguments])


@pytest.mark.parametrize("start", [0, 12])
def test_a_dry_run_says_what_is_read_and_written_and_a_run_archives_it_once(
    engine: EngineProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], start: int
) -> None:
    lake = lake_of(tmp_path)
    arguments = ["--from", str(start)] if start else []
    assert run(engine, tmp_path, *arguments, "--dry-run") == 0
    said = capsys.readouterr().out
    place = lake.within(archive_path("orders"))
    assert f"The archive of orders had come to offset 20, and its table {place} is gone." in said
    assert f"Would read {30 - start} messages of the log, from offset {start} up to 30, and write each once" in said
    assert ("Offsets 0 to 11 stay missing" in said) == bool(start)
    assert cursor_of(engine, "orders").offset == 20
    assert run(engine, tmp_path, *arguments) == 0
    assert cursor_of(engine, "orders").offset == start
    # In one act: nothing that ends the command leaves the archive off.
    assert orjson.loads(engine.http("GET", "/cursor/list"))["ended"] == []
    archive(lake, engine)
    found = archive_of(lake, "orders")
    assert (found.bodies, found.reasons) == (BODIES[start:], [(0, start, "lost")] if start else [])
    capsys.readouterr()
    assert run(engine, tmp_path) == 2
    assert "lacks nothing that was archived: it ends at offset 30" in capsys.readouterr().err
    assert cursor_of(engine, "orders").offset == 30
    # Lost again, before the job has seen it: no message of the log is given up.
    shutil.rmtree(lake.within(archive_path("orders")))
    assert run(engine, tmp_path, "--from", "29") == 2
    assert "only once the archive job shows that the table" in capsys.readouterr().err
    assert run(engine, tmp_path) == 0
    assert cursor_of(engine, "orders").offset == 0
    archive(lake, engine)
    assert archive_of(lake, "orders").bodies == BODIES


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("yesterday", "is neither an offset nor a time"),
        ("2026-11-20T00:00:00", "has no zone: write 2026-11-20T00:00:00Z"),
    ],
)
def test_a_place_that_is_none_is_refused(
    engine: EngineProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], start: str, sentence: str
) -> None:
    assert run(engine, tmp_path, "--from", start) == 2
    assert sentence in capsys.readouterr().err
    assert run(engine, tmp_path, "--from", "2026-11-20T00:00:00Z", "--dry-run") == 0
    assert "from offset 0 up to 30" in capsys.readouterr().out
    assert run(engine, tmp_path, "--from", "30", "--dry-run") == 0
    assert "Would begin again at offset 30, in a new table, with the messages that are" in capsys.readouterr().out


def test_files_that_are_missing_are_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = lake_of(tmp_path)
    with EngineProcess(tmp_path / "data", options=["--storage=log"]) as engine:
        for first in (0, 10, 20):
            publish(engine, "orders", BODIES[first : first + 10])
            if first == 0:
                assert run(engine, tmp_path) == 2
                assert "orders, number 1, was never archived here: use Archive…" in capsys.readouterr().err
                assert orjson.loads(engine.http("GET", "/cursor/list"))["cursors"] == []
            switch_on(engine, "orders")
            if first == 0:
                assert run(engine, tmp_path, "--dry-run") == 2
                assert "its archive is on, and begins at offset 0 by itself" in capsys.readouterr().err
            archive(lake, engine)
        paths = Path(lake.within(archive_path("orders"))).glob("date=*/*.parquet")
        (path,) = [one for one in paths if pq.ParquetFile(one).read(["offset"])["offset"][0].as_py() == 0]
        path.unlink()
        with pytest.raises(ArchiveFilesMissingError, match=r"1 of the 3 files .* 10 messages, offsets 0 to 9: nothing"):
            archive(lake, engine)
        for start in (0, 5):
            assert run(engine, tmp_path, *(["--from", str(start)] if start else []), "--dry-run") == 0
            said = capsys.readouterr().out
            assert "1 of the 3 files of the table" in said
            assert (
                f"Would read {10 - start} messages of these offsets from the log, write each once, and remove" in said
            )
            assert "the missing files from the table, about a step's messages in each commit." in said
            lost = f"{start} messages of these files are not read from the log: archive_gaps would get them as lost."
            assert (lost in said) == bool(start)
        assert run(engine, tmp_path, "--from", "10", "--dry-run") == 0
        said = capsys.readouterr().out
        assert "No message of these offsets is read from the log: the job would remove the missing files" in said
        assert "Would read" not in said
        assert cursor_of(engine, "orders").offset == 30
        assert run(engine, tmp_path, "--from", "5") == 0
        assert cursor_of(engine, "orders").offset == 5
        archive(lake, engine)
        found = archive_of(lake, "orders")
        assert (found.bodies, found.reasons) == (BODIES[5:], [(0, 5, "lost")])
        assert cursor_of(engine, "orders").offset == 30
        assert run(engine, tmp_path) == 2
        assert "lacks nothing that was archived" in capsys.readouterr().err
        engine.http("POST", "/topic/delete?topic=orders")
        publish(engine, "orders", BODIES[:3])
        assert run(engine, tmp_path) == 2
        assert "orders, number 2, was never archived here" in capsys.readouterr().err
        assert orjson.loads(engine.http("GET", "/cursor/list"))["cursors"] == []


def test_a_server_that_does_not_know_the_act_is_named(
    engine: EngineProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = LogClient._request

    def as_before(client: LogClient, method: str, path: str, query: dict[str, Any], body: bytes | None = None) -> Any:
        return ask(client, method, path, {name: value for name, value in query.items() if name != "anew"}, body)

    monkeypatch.setattr(LogClient, "_request", as_before)
    assert run(engine, tmp_path) == 2
    said = capsys.readouterr()
    assert "did not begin the cursor orders/archive again at offset 0, and left it at 20" in said.err
    assert "the server ignored anew=true" in said.err
    assert said.out == ""


def test_a_table_of_gaps_that_is_gone_is_made_anew_from_the_summary(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "data", options=["--storage=log"]) as engine:
        lake = lake_of(tmp_path)
        publish(engine, "orders", BODIES[:10])
        switch_on(engine, "orders", "end")
        publish(engine, "orders", BODIES[10:20])
        archive(lake, engine)
        engine.http("POST", "/cursor/delete?topic=orders&cursor=archive")
        publish(engine, "orders", BODIES[20:25])
        switch_on(engine, "orders", "end")
        publish(engine, "orders", BODIES[25:])
        archive(lake, engine)
        before = archive_of(lake, "orders")
        assert before.reasons == [(20, 25, "off")]
        shutil.rmtree(lake.within("archive_gaps"))
        publish(engine, "orders", [b"last"])
        archive(lake, engine)
        after = archive_of(lake, "orders")
    assert (after.begin_offset, after.gaps) == (before.begin_offset, before.gaps)
    assert after.bodies == [*before.bodies, b"last"]
