"""NSQ's programs read NSQ's version wherever they look; files have Penstock's own; people get the commit, too."""

import json
import re
from pathlib import Path

import pytest

from queue_engine.vocabulary.version import NSQ_VERSION, VERSION, commit_of, full_version
from tests.support.processes.running_engine import RunningEngine
from tests.support.processes.running_lookup import RunningLookup
from tests.support.waiting import wait_for

COMMIT = "8a0d66b0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6"


def test_what_nsqs_programs_read_is_nsqs_version_with_ours_as_its_build(tmp_path: Path) -> None:
    with (
        RunningLookup() as lookup,
        RunningEngine(tmp_path, lookupd_tcp_address=(lookup.tcp_address,), broadcast_address="127.0.0.1") as running,
    ):
        running.http("POST", "/topic/create?topic=orders")
        wait_for("the registration", lambda: lookup.producer_ports("orders") == [running.tcp_port])
        text = running.http("GET", "/stats").decode()
        found = {
            "/info": json.loads(running.http("GET", "/info"))["version"],
            "/stats?format=json": json.loads(running.http("GET", "/stats?format=json"))["version"],
            "/stats": text.partition(" (built w/python")[0].removeprefix("nsqd v"),
            "IDENTIFY": running.client().identify(feature_negotiation=True)["version"],
            "/nodes of nsqlookupd": lookup.get("/nodes")["producers"][0]["version"],
            "/info of nsqlookupd": lookup.get("/info")["version"],
        }
    assert found == dict.fromkeys(found, NSQ_VERSION)
    # https://semver.org: numbers, and a build that comparisons ignore.
    assert re.fullmatch(r"1\.3\.0\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*", NSQ_VERSION)
    assert f"1.3.0+penstock.{VERSION}" == NSQ_VERSION


def test_files_have_our_own_version(tmp_path: Path) -> None:
    with RunningEngine(tmp_path, storage="diskqueue") as running:
        running.http("POST", "/topic/create?topic=orders")
    assert json.loads((tmp_path / "nsqd.dat").read_bytes())["version"] == f"penstock {VERSION}"
    assert f'"version":"{VERSION}"' in (tmp_path / "topology.json").read_text().replace('": "', '":"')


def checkout(directory: Path, head: str, files: dict[str, str]) -> Path:
    for name, text in {".git/HEAD": f"{head}\n", **files}.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.mark.parametrize(
    ("head", "files"),
    [
        (COMMIT, {}),
        ("ref: refs/heads/main", {".git/refs/heads/main": f"{COMMIT}\n"}),
        (
            "ref: refs/heads/a/b",
            {".git/packed-refs": f"# pack-refs\n{COMMIT} refs/heads/a/b\n^{COMMIT}\n"},
        ),
    ],
)
def test_the_commit_of_a_checkout_is_found(tmp_path: Path, head: str, files: dict[str, str]) -> None:
    assert commit_of(checkout(tmp_path, head, files)) == COMMIT


@pytest.mark.parametrize("place", [".git/refs/heads/topic", ".git/packed-refs"])
def test_the_commit_of_a_further_worktree_is_found(tmp_path: Path, place: str) -> None:
    line = f"{COMMIT}\n" if place.endswith("topic") else f"{COMMIT} refs/heads/topic\n"
    own = ".git/worktrees/other"
    files = {place: line, f"{own}/HEAD": "ref: refs/heads/topic\n", f"{own}/commondir": "../..\n"}
    main = checkout(tmp_path / "main", "ref: refs/heads/main", files)
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {main / own}\n")
    assert commit_of(other) == COMMIT


@pytest.mark.parametrize(
    ("head", "files"),
    [
        ("ref: refs/heads/main", {}),
        ("ref: refs/heads/main", {".git/packed-refs": f"{COMMIT} refs/heads/other\n"}),
        ("ref: refs/heads/main", {".git/refs/heads/main": "not a commit\n"}),
        ("8a0d\x00", {}),
        ("", {}),
    ],
)
def test_without_a_commit_the_version_stands_alone(tmp_path: Path, head: str, files: dict[str, str]) -> None:
    assert commit_of(checkout(tmp_path / "broken", head, files)) == ""
    assert commit_of(tmp_path) == ""


def test_people_read_the_version_with_the_commit_behind_it() -> None:
    commit = commit_of(Path(__file__).parents[2])
    assert full_version() == (f"{VERSION}+g{commit[:12]}" if commit else VERSION)
