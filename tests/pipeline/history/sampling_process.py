"""An engine that takes samples by a clock of its own, to be killed.

python -m tests.pipeline.history.sampling_process DATA NS N

NS: Unix ns, when it starts. It takes N samples, ten seconds apart, writes a line, and waits.
"""

import signal
import subprocess
import sys
from pathlib import Path

from tests.support.clock import ManualClock
from tests.support.engine import make_engine
from tests.support.samples import INTERVAL_MS, take_sample


def sample_and_be_killed(data_path: Path, start_ns: int, count: int) -> None:
    """One life of such an engine; its end is kill -9."""
    module = "tests.pipeline.history.sampling_process"
    command = [sys.executable, "-m", module, str(data_path), str(start_ns), str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"taken\n"
        finally:
            process.kill()


def main(data_path: str, start_ns: str, count: str) -> None:
    clock = ManualClock(time_ns=int(start_ns))
    engine = make_engine(Path(data_path), clock, samples_interval_ms=INTERVAL_MS)
    for _ in range(int(count)):
        take_sample(engine, clock)
    print("taken", flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
