"""The project's own rules: what stands at the top, what is written down."""

import ast
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from admin_console.management.known_variables import VARIABLES
from tests.support.references.all_references import REFERENCES
from tests.support.references.generated import Reference
from tests.support.storage_kinds import BOTH, ONCE, ONLY
from tests.support.work_units import LONG_UNITS, unit_of
from tests.test_floors import doors, python_modules

ROOT = Path(__file__).resolve().parent.parent

TOP_LEVEL = {
    "manage.py",
    "pyproject.toml",
    "README.md",
    "admin_console",
    "queue_engine",
    "templates",
    "static",
    "tests",
}


def tracked_files() -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_top_level_is_exactly_the_cards() -> None:
    top = {name.split("/")[0] for name in tracked_files()}
    assert {name for name in top if not name.startswith(".")} == TOP_LEVEL


def test_package_files_hold_a_docstring_and_nothing_else() -> None:
    for name in tracked_files():
        if name.endswith("__init__.py"):
            tree = ast.parse((ROOT / name).read_text())
            assert len(tree.body) <= 1, name
            # The tests' own folders need not say again what their files say.
            assert ast.get_docstring(tree) or (not tree.body and name.startswith("tests/")), name


def test_nothing_names_a_path_of_the_machine_it_was_written_on() -> None:
    # The brackets keep this file from finding itself.
    machine_path = re.compile(r"/(?:[w]ork|[t]mp|[h]ome|[f]arm)/[a-z]|\.\./[s]hared")
    for name in tracked_files():
        if name.endswith((".py", ".md", ".toml", ".html", ".js", ".css", ".json", ".jsonl", "/run")):
            found = machine_path.search((ROOT / name).read_text())
            assert found is None, f"{name}: {found and found[0]}"


def test_each_file_that_a_text_names_exists() -> None:
    """In README files by its place, as seen from there or from a folder above; in the code by its last name."""
    tracked = tracked_files()
    last_names = {Path(name).name for name in tracked}
    complaints = []
    for name in tracked:
        text = (ROOT / name).read_text() if name.endswith((".py", ".md")) else ""
        for found in re.findall(r"(?<![\w/.*-])[\w/]+\.(?:py|md)\b", text):
            if name.endswith(".md"):
                folders = [ROOT / name, *(ROOT / name).parents]
                is_there = any((folder / found).is_file() for folder in folders if folder.is_relative_to(ROOT))
            else:
                is_there = Path(found).name in last_names
            if not is_there:
                complaints.append(f"{name}: {found}")
    assert complaints == []


def test_slow_work_starts_as_a_background_job() -> None:
    """The disk queues' folder is a background itself: it counts jobs and passes them on."""
    starting = [
        name
        for name in tracked_files()
        if name.startswith("queue_engine/")
        and name.endswith(".py")
        and re.search(r"(background|worker)\.submit\(", (ROOT / name).read_text())
    ]
    assert starting == ["queue_engine/storage/disk/background_job.py", "queue_engine/storage/disk_queue/folder.py"]


def test_each_folder_names_its_modules_at_its_door() -> None:
    modules: dict[str, set[str]] = {}
    for module, path in python_modules().items():
        if path.name == "__init__.py":
            modules.setdefault(module, set())
        else:
            package, _, name = module.rpartition(".")
            modules.setdefault(package, set()).add(name)
    assert {package: sorted(offered | inside) for package, (offered, inside) in doors().items()} == {
        package: sorted(names) for package, names in modules.items()
    }
    assert [package for package, (offered, inside) in doors().items() if offered & inside] == []


def test_the_commands_of_the_readme_are_a_short_line_each() -> None:
    text = (ROOT / "README.md").read_text()
    blocks = dict(re.findall(r"<!-- command: (\w+) -->\n```sh\n(.*?)\n```\n", text, re.DOTALL))
    assert blocks == {"run": "python3 manage.py serve", "test": "python3 manage.py test"}
    assert f"\n{blocks['test']}\n" in (ROOT / ".ci/run").read_text()


def test_the_readme_and_its_pictures_are_small() -> None:
    assert (ROOT / "README.md").stat().st_size <= 8 << 10
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', (ROOT / "README.md").read_text())
    assert sorted(pictures) == [".github/console-dark.png", ".github/console-light.png"]
    assert sum((ROOT / name).stat().st_size for name in pictures) <= 400 << 10


def test_each_entry_of_the_changelog_stands_once() -> None:
    """A rebase that keeps both sides can bring one twice, at two places."""
    entries = re.split(r"^- ", (ROOT / ".github" / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    sentences = [one for entry in entries[1:] for one in re.split(r"[.:]\s+", " ".join(entry.split())) if len(one) > 60]
    assert [one for one, count in Counter(sentences).items() if count > 1] == []


def headings(path: Path) -> set[str]:
    """The headings of a text as links name them: small letters, hyphens, no other signs."""
    lines = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_each_link_of_a_readme_leads_to_something() -> None:
    complaints = []
    for name in tracked_files():
        if not name.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text()):
            if target.startswith("https://"):
                continue
            file, _, heading = target.partition("#")
            path = (ROOT / name).parent / file if file else ROOT / name
            if not path.exists() or (heading and heading not in headings(path)):
                complaints.append(f"{name}: {target}")
    assert complaints == []


@pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)
def test_each_reference_is_current(reference: Reference) -> None:
    text = (ROOT / reference.path).read_text()
    assert reference.renewed(text) == text, "run: .venv/bin/python -m tests.support.references"


def test_every_marked_part_of_a_file_is_one_of_the_references() -> None:
    marked = {
        (path.relative_to(ROOT).as_posix(), name)
        for top in ("admin_console", "queue_engine", ".github", "tests")
        for path in (ROOT / top).rglob("*.md")
        for name in re.findall(r"^<!-- generated: (.*) -->$", path.read_text(), re.MULTILINE)
    }
    assert marked == {(reference.path, reference.name) for reference in REFERENCES}


def test_every_variable_that_the_server_knows_stands_in_a_table() -> None:
    shown = set[str]()
    for reference in REFERENCES:
        shown.update(re.findall(r"`(PENSTOCK_\w+)`", "\n".join(reference.make())))
    assert shown == VARIABLES


@pytest.mark.parametrize("text", ["", "<!-- generated: x -->\n", "<!-- end: x -->\n<!-- generated: x -->\n"])
def test_a_file_without_its_marks_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"some/README\.md needs the lines"):
        Reference("x", "some/README.md", lambda: ["line"]).renewed(text)


def test_the_table_of_storage_kinds_names_only_what_there_is_each_with_a_reason() -> None:
    tests = ROOT / "tests"
    files = [path for folder in BOTH for path in sorted((tests / folder).rglob("test_*.py"))]
    known = {path.relative_to(tests).as_posix() for path in files}
    known |= {f"{Path(name).parent.as_posix()}/" for name in known}
    for path in files:
        known |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    named = {name: reason for name, (_, reason) in ONLY.items()} | ONCE
    assert {name for name in named if name not in known} == set()
    assert {name for name, reason in named.items() if not reason} == set()
    assert ONLY.keys() & ONCE.keys() == set()
    assert [folder for folder in BOTH if not any(name.startswith(f"{folder}/") for name in known)] == []


def test_the_tests_that_come_first_are_there() -> None:
    names = {f"{name}::test" for name in tracked_files() if re.fullmatch(r"tests/.*test_\w+\.py", name)}
    assert set(LONG_UNITS) - set(map(unit_of, names)) == set()


def test_each_slow_test_says_why() -> None:
    for name in tracked_files():
        if name.startswith("tests/") and name.endswith(".py"):
            for found in re.finditer(r"mark\.slow\b(\(reason=\"\w[^\"]+\"\))?", (ROOT / name).read_text()):
                assert found[1], name
