"""Which package may import which: the layers as data, checked against every import, those for types included."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A package, and the packages that its modules may import besides those of their own. Lowest first: what a package may
# import stands above it. Names are those below queue_engine; "engine" is queue_engine itself.
MAY_IMPORT = {
    "vocabulary": "",
    "vocabulary.options": "vocabulary",
    "vocabulary.flow": "vocabulary",
    "vocabulary.latency": "",
    "vocabulary.acts": "vocabulary vocabulary.flow",
    "process": "",
    "go_flags": "vocabulary vocabulary.options",
    "protocol": "vocabulary vocabulary.options",
    "wire": "vocabulary",
    "disk": "vocabulary",
    "storage": "vocabulary vocabulary.flow vocabulary.latency",
    "commit_log": "vocabulary vocabulary.latency disk storage",
    "consume_queue": "vocabulary disk storage commit_log",
    "progress": "vocabulary vocabulary.flow disk storage consume_queue",
    "readers": "vocabulary disk",
    "key_index": "vocabulary disk",
    "log_store": "vocabulary vocabulary.flow disk storage commit_log consume_queue progress readers key_index",
    "fetch": "vocabulary wire commit_log consume_queue readers log_store",
    "disk_queue.fifo": "vocabulary disk",
    "disk_queue": "vocabulary vocabulary.options vocabulary.flow disk storage disk_queue.fifo",
    "delivery": "vocabulary vocabulary.options vocabulary.flow vocabulary.latency wire storage",
    "act_file": "vocabulary disk delivery",
    "messages": "vocabulary vocabulary.flow commit_log log_store fetch disk_queue delivery",
    "topology": "vocabulary vocabulary.flow disk commit_log",
    "samples": "vocabulary vocabulary.options disk commit_log progress log_store fetch delivery",
    "tls": "vocabulary vocabulary.options",
    "identity": "vocabulary vocabulary.options disk tls",
    "catalog": (
        "vocabulary vocabulary.options disk storage commit_log consume_queue progress readers log_store disk_queue "
        "delivery topology"
    ),
    "engine": (
        "vocabulary vocabulary.options vocabulary.flow vocabulary.acts wire disk storage commit_log progress readers "
        "log_store fetch disk_queue delivery messages topology samples catalog"
    ),
    "service.admission": "vocabulary delivery engine",
    "service.loop": "vocabulary engine",
    "service.monitoring": "vocabulary vocabulary.latency storage delivery service.admission",
    "service.introspection": "service.monitoring",
    "service.layers": "protocol",
    "service.tcp": (
        "vocabulary vocabulary.options protocol delivery identity tls engine service.admission service.loop "
        "service.layers"
    ),
    "service.lookup_client": "vocabulary vocabulary.options delivery engine service.loop",
    "service.http.reference": "vocabulary vocabulary.acts wire storage messages engine service.monitoring",
    "service.http.exchange": "vocabulary wire service.admission service.http.reference",
    "service.http": (
        "vocabulary vocabulary.options vocabulary.flow vocabulary.latency vocabulary.acts protocol wire storage "
        "readers fetch delivery messages identity tls engine service.admission service.monitoring "
        "service.introspection service.http.reference service.http.exchange"
    ),
    "service.statsd": "vocabulary vocabulary.options delivery engine service.loop service.monitoring",
    "service": (
        "vocabulary vocabulary.options disk commit_log disk_queue delivery act_file identity tls engine "
        "service.admission service.loop service.layers service.monitoring service.tcp service.lookup_client "
        "service.http service.statsd"
    ),
    "daemon": "vocabulary vocabulary.options go_flags identity process service",
    "__main__": "daemon",
    "lookup": (
        "vocabulary vocabulary.options protocol go_flags service.admission service.http.exchange "
        "service.http.reference process daemon"
    ),
    "client": "vocabulary vocabulary.options protocol",
    "tools": "vocabulary vocabulary.options client",
    "pipeline.spark": "vocabulary vocabulary.options process",
    "pipeline.expression": "vocabulary",
    "pipeline.lake": "vocabulary disk",
    "pipeline.tables": "vocabulary disk",
    "pipeline.query": "vocabulary vocabulary.options pipeline.tables",
    "pipeline.source": "vocabulary wire disk commit_log",
    "pipeline.job": "vocabulary vocabulary.options pipeline.lake pipeline.tables pipeline.source",
    "pipeline.history": "vocabulary disk samples pipeline.lake pipeline.tables pipeline.source pipeline.job",
    "pipeline.archive": "vocabulary wire disk pipeline.lake pipeline.tables pipeline.source pipeline.job",
    "pipeline.housekeeping": ("vocabulary pipeline.lake pipeline.tables pipeline.job pipeline.archive"),
    "pipeline.replay": (
        "vocabulary pipeline.expression pipeline.lake pipeline.tables pipeline.source pipeline.job pipeline.archive"
    ),
    "pipeline": (
        "vocabulary pipeline.spark pipeline.lake pipeline.source pipeline.job pipeline.history pipeline.archive"
        " pipeline.housekeeping pipeline.replay"
    ),
    "pipeline.rearchive": (
        "vocabulary wire pipeline pipeline.spark pipeline.lake pipeline.tables pipeline.source pipeline.job "
        "pipeline.archive"
    ),
    "nsqd_import": "vocabulary disk disk_queue.fifo topology pipeline.source",
    "pipeline.worker": (
        "vocabulary disk pipeline pipeline.spark pipeline.lake pipeline.source pipeline.job pipeline.history"
    ),
}

# The same of admin_console; "console" is admin_console itself.
CONSOLE_MAY_IMPORT = {
    "vocabulary": "",
    "database": "vocabulary",
    "pacing": "",
    "graphs": "vocabulary",
    "accounts": "vocabulary database pacing",
    "migrations": "accounts",
    "gateway": "vocabulary pacing",
    "audit": "vocabulary database accounts gateway",
    "answers": "database gateway",
    "rings": "",
    "diagnosis": "vocabulary gateway rings",
    "hub": "gateway rings diagnosis",
    "messages": "vocabulary gateway",
    "permissions": "vocabulary accounts audit gateway answers hub",
    "security": "pacing accounts audit answers",
    "screens": "vocabulary gateway rings diagnosis hub permissions",
    "history": "vocabulary pacing gateway rings hub screens",
    "live": "vocabulary accounts gateway hub permissions screens",
    "api": "gateway answers rings hub screens history",
    "views": (
        "vocabulary database pacing graphs accounts audit gateway answers diagnosis hub messages permissions screens"
        " history"
    ),
    "message_views": "vocabulary audit gateway answers messages permissions views",
    "console": "vocabulary accounts audit permissions security live views message_views",
    "management": "vocabulary database accounts audit gateway views console",
    "management.commands": (
        "vocabulary database pacing graphs accounts audit gateway hub permissions console management"
    ),
}

FLOORS = {"queue_engine": MAY_IMPORT, "admin_console": CONSOLE_MAY_IMPORT}

# The settings take the form of log lines from the engine: one form for both. And so are the roles, the proxies, and
# numbers of bytes as text. The audit list is a sink of the engine's records of acts.
ENGINE_IMPORTERS = (
    "admin_console.audit",
    "admin_console.gateway",
    "admin_console.management",
    "admin_console.options",
    "admin_console.security.proxy",
    "admin_console.settings",
    "admin_console.vocabulary.roles",
    "admin_console.vocabulary.units",
)
FOREIGN_TO_THE_ENGINE = {"django", "channels", "daphne", "twisted", "autobahn", "plotly", "whitenoise", "admin_console"}


@cache
def python_modules() -> dict[str, Path]:
    """Module name → file, for every module of the product."""
    modules = {}
    for package in ("queue_engine", "admin_console"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def imported_by(module: str) -> frozenset[str]:
    """Every module that this one imports, anywhere in its text; for `from x import y` it is x.y, if that is one."""
    known = python_modules()
    path = known[module]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
                base = package[: len(package) - node.level + 1]
                source = ".".join([*base, *([source] if source else [])])
            found.update(name if (name := f"{source}.{alias.name}") in known else source for alias in node.names)
    return frozenset(found)


@cache
def doors() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Package → the modules that its README offers to other folders, and those that it keeps inside."""
    found = {}
    for path in sorted(path for top in ("queue_engine", "admin_console") for path in (ROOT / top).rglob("README.md")):
        tables = path.read_text().split("\n\n")
        offered, inside = (
            frozenset(
                name
                for table in tables
                if table.startswith(f"| {heading} |")
                for name in re.findall(r"^\| `(\w+)\.py` \| \S", table, re.MULTILINE)
            )
            for heading in ("other folders import", "inside only")
        )
        found[".".join(path.parent.relative_to(ROOT).parts)] = offered, inside
    return found


def rows_of_readmes(half: str) -> dict[str, set[str]]:
    """Package → the packages that its row names, of each table "folder | what it is | imports from" in a README.

    A row of a folder whose README has such a table, too, is "all of FOLDER": it names what all within may import."""
    heading = "\n| folder | what it is | imports from |\n"
    tables = {
        path.parent: path.read_text().partition(heading)[2].partition("\n\n")[0]
        for path in (ROOT / half).rglob("README.md")
        if heading in path.read_text()
    }
    rows = {}
    for folder, table in tables.items():
        for name, names in re.findall(r"^\| `([\w/.]+)`.*? \| .* \| ?(.*?) ?\|$", table, re.MULTILINE):
            package = package_at(half, folder / name)
            row = f"all of {package}" if folder / name in tables else package
            rows[row] = set[str]()
            for one in filter(None, names.replace("`", "").split(", ")):
                if one.startswith("all of "):
                    rows[row] |= {
                        known for known in FLOORS[half] if known.startswith(f"{one.removeprefix('all of ')}.")
                    }
                elif one != "queue_engine":
                    beside = ((folder / name).parent / one, folder / one, ROOT / half / one)
                    rows[row].add(next((package_at(half, place) for place in beside if place.exists()), one))
    return rows


def package_at(half: str, place: Path) -> str:
    """The package of a folder, or of a module's folder, as the tables name it."""
    folder = place.parent if place.suffix == ".py" else place
    if place == ROOT / half / "__main__.py":
        return "__main__"
    return ".".join(folder.relative_to(ROOT / half).parts) or half.rpartition("_")[2]


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def package_of(module: str) -> str:
    """As the tables name it: the folder, except for a program that stands above all folders."""
    if module.count(".") == 1 and module.endswith(".__main__"):
        return "__main__"
    is_package = python_modules()[module].name == "__init__.py"
    half, _, package = (module if is_package else module.rpartition(".")[0]).partition(".")
    return package or half.rpartition("_")[2]


def imports_within(half: str) -> Iterator[tuple[str, str]]:
    """(importing module, imported module), both of this half."""
    for module in python_modules():
        if is_within(module, half):
            yield from ((module, target) for target in imported_by(module) if is_within(target, half))


@pytest.mark.parametrize("half", FLOORS)
def test_a_package_imports_only_what_its_row_allows(half: str) -> None:
    complaints = [
        f"{module} imports {target}"
        for module, target in imports_within(half)
        if package_of(target) not in {package_of(module), *FLOORS[half][package_of(module)].split()}
    ]
    assert complaints == []


@pytest.mark.parametrize("half", FLOORS)
def test_the_table_names_each_package_once_and_what_it_may_import_above_it(half: str) -> None:
    assert set(FLOORS[half]) == {package_of(name) for name in python_modules() if is_within(name, half)}
    above: set[str] = set()
    for package, allowed in FLOORS[half].items():
        assert set(allowed.split()) <= above, package
        above.add(package)


@pytest.mark.parametrize("half", FLOORS)
def test_the_tables_of_the_readmes_name_what_each_package_may_import(half: str) -> None:
    table = {package: set(allowed.split()) for package, allowed in FLOORS[half].items()}
    if half == "queue_engine":
        # Its README says that all may import vocabulary and its rooms, and has one row for all of the pipeline.
        table["all of pipeline"] = {
            one
            for package in table
            if is_within(package, "pipeline")
            for one in table[package]
            if not is_within(one, "pipeline")
        }
        table = {
            package: {one for one in allowed if not is_within(one, "vocabulary")} for package, allowed in table.items()
        }
    assert rows_of_readmes(half) == table


@pytest.mark.parametrize("half", FLOORS)
def test_no_row_allows_what_nobody_imports(half: str) -> None:
    used: dict[str, set[str]] = {package: set() for package in FLOORS[half]}
    for module, target in imports_within(half):
        used[package_of(module)].add(package_of(target))
    unused = {package: set(allowed.split()) - used[package] for package, allowed in FLOORS[half].items()}
    assert unused == {package: set() for package in FLOORS[half]}


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {module: imported_by(module) & python_modules().keys() - {module} for module in python_modules()}
    # Take away each module that imports none of those left, or that none of them imports: what stays is a circle.
    while free := {one for one in left if not left[one] or not any(one in targets for targets in left.values())}:
        left = {module: targets - free for module, targets in left.items() if module not in free}
    assert left == {}


def test_engine_knows_nothing_of_the_web_framework() -> None:
    complaints = [
        f"{module} imports {target}"
        for module in python_modules()
        if is_within(module, "queue_engine")
        for target in imported_by(module)
        if target.split(".")[0] in FOREIGN_TO_THE_ENGINE
    ]
    assert complaints == []


def test_console_reaches_the_engine_only_through_gateway_and_commands() -> None:
    complaints = [
        f"{module} imports {target}"
        for module in python_modules()
        if is_within(module, "admin_console") and not any(is_within(module, one) for one in ENGINE_IMPORTERS)
        for target in imported_by(module)
        if is_within(target, "queue_engine")
    ]
    assert complaints == []


def test_a_folder_imports_of_another_only_what_stands_at_its_door() -> None:
    """A module that other folders come to need moves, in its folder's README, to the table "other folders import"."""
    complaints = []
    for module in python_modules():
        own = module if python_modules()[module].name == "__init__.py" else module.rpartition(".")[0]
        for target in imported_by(module):
            package, _, name = target.rpartition(".")
            if package in doors() and package != own and name in doors()[package][1]:
                complaints.append(f"{module} imports {target}, which its README keeps inside")
    assert complaints == []
