"""The file of Java's classes is used when it is whole and fits, and anything else is as if there were none."""

import os
import zlib
from pathlib import Path

import pytest

from queue_engine.pipeline.class_archive import JAVA_OPTIONS, RECORD_SETTING, ClassArchive

OPTIONS = "-XX:+UseSerialGC"
CONTENT = b"classes" * 1000


class Machine:
    """A Java that has an archive of its own classes, Spark's jars, and a directory for ours."""

    def __init__(self, directory: Path) -> None:
        self.java_home = directory / "java"
        self.base = self.java_home / "lib" / "server" / "classes.jsa"
        self.base.parent.mkdir(parents=True)
        self.base.write_bytes(b"its own")
        self.jars = directory / "jars"
        self.jars.mkdir()
        self.classes = directory / "classes"

    def archive(self, options: str = OPTIONS) -> ClassArchive:
        return ClassArchive(self.classes, java_home=self.java_home, jars=self.jars, options=options)

    def write(self) -> Path:
        self.classes.mkdir(exist_ok=True)
        path = self.classes / f"{self.archive().key}-{zlib.crc32(CONTENT):08x}.jsa"
        path.write_bytes(CONTENT)
        return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_a_file_the_worker_records_one_and_others_do_without(machine: Machine) -> None:
    assert machine.archive().settings(OPTIONS, records=False) == {JAVA_OPTIONS: OPTIONS}
    settings = machine.archive().settings(OPTIONS, records=True)
    assert settings[JAVA_OPTIONS].startswith(f"{OPTIONS} -XX:+IgnoreUnrecognizedVMOptions -XX:+RecordDynamicDumpInfo ")
    assert Path(settings[RECORD_SETTING]).parent == machine.classes


@pytest.mark.parametrize("records", [True, False])
def test_a_whole_file_is_used_and_none_recorded(machine: Machine, records: bool) -> None:
    path = machine.write()
    settings = machine.archive().settings(OPTIONS, records=records)
    assert settings.keys() == {JAVA_OPTIONS}
    assert settings[JAVA_OPTIONS].endswith(f" -XX:SharedArchiveFile={path}")
    assert "Record" not in settings[JAVA_OPTIONS]


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], CONTENT[:-1] + b"S"])
def test_a_damaged_file_never_reaches_java(machine: Machine, damaged: bytes) -> None:
    path = machine.write()
    path.write_bytes(damaged)
    assert machine.archive().settings(OPTIONS, records=False) == {JAVA_OPTIONS: OPTIONS}
    assert RECORD_SETTING in machine.archive().settings(OPTIONS, records=True)
    assert not path.exists()


def test_an_empty_file_is_damaged_though_its_checksum_is_right(machine: Machine) -> None:
    machine.classes.mkdir()
    path = machine.classes / f"{machine.archive().key}-{zlib.crc32(b''):08x}.jsa"
    path.touch()
    assert machine.archive().find() is None


def test_a_file_for_another_java_other_jars_or_options_is_not_used_but_removed(machine: Machine) -> None:
    path = machine.write()
    assert machine.archive().find() == path
    assert machine.archive("-XX:+UseG1GC").find() is None
    os.utime(machine.jars, ns=(1, 1))
    assert machine.archive().find() is None
    path = machine.write()
    machine.base.write_bytes(b"its own, of another version")
    assert machine.archive().find() is None
    (machine.classes / "cut-short.tmp").write_bytes(b"half")
    machine.archive().settings(OPTIONS, records=True)
    assert list(machine.classes.iterdir()) == []


def test_a_java_without_an_archive_of_its_own_is_asked_for_nothing(machine: Machine) -> None:
    machine.base.unlink()
    assert not machine.archive().is_possible
    assert machine.archive().settings(OPTIONS, records=True) == {JAVA_OPTIONS: OPTIONS}
    assert not machine.classes.exists()
