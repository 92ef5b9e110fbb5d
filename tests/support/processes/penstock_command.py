"""The command `penstock` as a process that ends by itself."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes.server import ROOT

TIMEOUT_S = 120


def penstock(*arguments: str, directory: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run it in `directory`, with these variables and the PATH."""
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
