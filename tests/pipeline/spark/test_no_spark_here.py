"""No process of the console's or the engine's ever loads Spark, nor what only Spark's readers need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.server import ROOT

pytestmark = pytest.mark.slow(reason="starts processes")

FOREIGN = ("pyspark", "py4j", "pyarrow", "pandas", "deltalake")


PROGRAMS = (
    "import queue_engine.service.runner",
    "import queue_engine.lake.worker.process, queue_engine.lake.jobs, queue_engine.lake.worker.worker",
    "import queue_engine.lake.archive.listing, queue_engine.lake.replay.listing",
    "import django; django.setup(); import admin_console.asgi, admin_console.urls",
    "import django; django.setup(); import admin_console.management.commands.serve",
    "import django; django.setup(); import admin_console.management.commands.pipeline",
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_importing_it_loads_no_spark(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}; print(*sorted(sys.modules), sep='\\n')"],
        cwd=ROOT,
        env={
            "DJANGO_SETTINGS_MODULE": "admin_console.settings",
            "PENSTOCK_DATA_PATH": str(tmp_path),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()}
    assert "queue_engine" in loaded
    assert not loaded & set(FOREIGN)
