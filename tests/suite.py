"""The whole suite, as `python3 manage.py test` runs it: lint, format, types, every test; the first failure ends it.

--fast          only the tests that are not slow
--slowest[=N]   at the end of each run of pytest, the seconds of each folder and of the N slowest tests
anything else   goes to pytest; where it chooses tests, those run alone: `manage.py test tests/console -k pause`

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
# Four processes on two cores: tests wait more than they compute, for sockets, syncs, other processes, Chromium.
SIDE_BY_SIDE = ("-n", "4", "--dist", "loadfile")


def main() -> int:
    arguments, others = _parsed()
    pytest = [sys.executable, "-m", "pytest"]
    if arguments.slowest:
        pytest += ["-p", "tests.support.slowest", "--slowest", str(arguments.slowest)]
    if arguments.fast:
        stages = {"fast tests": [*pytest, "-m", "not slow", *SIDE_BY_SIDE, *FREED, *others]}
    elif any(map(_chooses_tests, others)):
        stages = {"chosen tests": [*pytest, *others]}
    else:
        stages = {
            "lint": [_program("ruff"), "check", "."],
            "format": [_program("ruff"), "format", "--check", "."],
            "types": [_program("mypy")],
            # They measure by the clock: nothing else runs beside them.
            "benchmarks' floors": [*pytest, SMOKE, *others],
            "all other tests": [*pytest, "--ignore", SMOKE, *SIDE_BY_SIDE, *FREED, *others],
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
        description=(
            "Lint, format, types and every test. A file or folder of tests, -k, -m or --lf has pytest run those tests "
            "alone. Other options go to pytest."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--fast", action="store_true", help="only the tests that are not slow")
    parser.add_argument(
        "--slowest", type=int, nargs="?", const=SHOWN, metavar="=N",
        help=f"print the seconds of each folder and of the N slowest tests (default: {SHOWN})",
    )  # fmt: skip
    # `--slowest tests/console` names tests.
    words = sys.argv[1:]
    for at, word in enumerate(words):
        if word == "--slowest":
            has_number = at + 1 < len(words) and words[at + 1].isdecimal()
            words[at] = f"--slowest={words.pop(at + 1) if has_number else SHOWN}"
    return parser.parse_known_args(words)


def _chooses_tests(word: str) -> bool:
    """Whether an argument says which tests to run."""
    return word.startswith(("-k", "-m", "--lf", "--last-failed")) or (ROOT / word.partition("::")[0]).exists()


def _program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def _duration(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
