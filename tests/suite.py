"""The whole suite, as `python3 manage.py test` runs it: lint, format, types, every test; the first failure ends it.

--fast          only the tests that are not slow
--slowest [N]   at the end of each run of pytest, the seconds of each folder and of the N slowest tests
anything else   goes to pytest, which then runs those tests alone: `manage.py test tests/console -k pause`

The tests' files are in memory where there is room for them, but for those of tests that need a disk.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.support.run_costs import use_memory
from tests.support.slowest import SHOWN

ROOT = Path(__file__).resolve().parent.parent
IN_MEMORY = ("fast tests", "all other tests")
# What passed leaves nothing: together the tests write more than there is memory.
FREED = ("-o", "tmp_path_retention_policy=failed")
SMOKE = "tests/benchmarks/test_smoke.py"
# Three processes on two cores: tests wait a lot.
SIDE_BY_SIDE = ("-n", "3", "--dist", "loadfile")


def main() -> int:
    arguments, others = _parsed()
    pytest = [sys.executable, "-m", "pytest"]
    if arguments.slowest:
        pytest += ["-p", "tests.support.slowest", "--slowest", str(arguments.slowest)]
    if arguments.fast:
        stages = {"fast tests": [*pytest, "-m", "not slow", *SIDE_BY_SIDE, *FREED, *others]}
    elif others:
        stages = {"chosen tests": [*pytest, *others]}
    else:
        stages = {
            "lint": [_program("ruff"), "check", "."],
            "format": [_program("ruff"), "format", "--check", "."],
            "types": [_program("mypy")],
            # They measure by the clock: nothing else runs beside them.
            "benchmarks' floors": [*pytest, SMOKE],
            "all other tests": [*pytest, "--ignore", SMOKE, *SIDE_BY_SIDE, *FREED],
        }
    began = time.monotonic()
    for place, (name, command) in enumerate(stages.items(), 1):
        where = f": {use_memory()}" if name in IN_MEMORY else ""
        print(f"[{place}/{len(stages)}] {name}{where}", flush=True)
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        if status:
            print(f"{name}: failed after {_duration(time.monotonic() - began)}", file=sys.stderr)
            return status
    print(f"passed in {_duration(time.monotonic() - began)}")
    return 0


def _parsed() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="manage.py test",
        description="Lint, format, types and every test. Other arguments go to pytest, which runs those tests alone.",
    )
    parser.add_argument("--fast", action="store_true", help="only the tests that are not slow")
    parser.add_argument(
        "--slowest", type=int, nargs="?", const=SHOWN, metavar="N",
        help=f"print the seconds of each folder and of the N slowest tests (default: {SHOWN})",
    )  # fmt: skip
    # `--slowest tests/console` names tests: a number comes with "=" alone.
    return parser.parse_known_args([f"--slowest={SHOWN}" if word == "--slowest" else word for word in sys.argv[1:]])


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
