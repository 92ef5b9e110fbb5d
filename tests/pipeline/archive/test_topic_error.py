"""What a page shows with a topic that can't be archived."""

from pathlib import Path
from typing import Any

import pytest

from queue_engine.lake.archive import step_writer
from queue_engine.lake.archive.summary import read_summary
from queue_engine.lake.directory.lake import Lake
from tests.pipeline.archive_reading import archive_once, job, publish, switch_on
from tests.pipeline.local_tasks import LocalTasks, TaskFailedError
from tests.support.processes.running_engine import RunningEngine


def test_an_error_of_a_task_is_shown_as_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("OutOfMemoryError")

    lake = Lake(str(tmp_path / "pipeline"))
    with RunningEngine(tmp_path / "engine", storage="log") as engine, lake.lock():
        context = job(LocalTasks(), lake, engine).context  # type: ignore[arg-type]
        publish(engine, "orders", [b"a"])
        switch_on(engine, "orders")
        archive_once(context)
        publish(engine, "orders", [b"b"])
        monkeypatch.setattr(step_writer, "write_data_file", fail)
        with pytest.raises(TaskFailedError):
            archive_once(context)
    assert (read_summary(lake) or {})["orders"].error == "Java had no memory left for it."
