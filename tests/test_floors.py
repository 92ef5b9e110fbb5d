"""Which package may import which: the layers as data, checked against every import, those for types included."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

DOORS = (
    "vocabulary",
    "wire",
    "storage",
    "delivery",
    "engine",
    "service",
    "client",
    "daemon",
    "lookup",
    "lake",
)

# A package, and the packages that its modules may import besides those of their own. Lowest first: what a package may
# import stands above it, and each door is in one piece. Names are those below queue_engine.
MAY_IMPORT = {
    "queue_engine": "",
    "vocabulary": "",
    "vocabulary.options": "vocabulary",
    "vocabulary.flow": "vocabulary",
    "vocabulary.latency": "",
    "vocabulary.acts": "vocabulary vocabulary.flow",
    "wire.protocol": "vocabulary vocabulary.options",
    "wire": "vocabulary",
    "storage.disk": "vocabulary",
    "storage": "vocabulary vocabulary.flow vocabulary.latency",
    "storage.commit_log": "vocabulary vocabulary.latency storage.disk storage",
    "storage.consume_queue": "vocabulary storage.disk storage storage.commit_log",
    "storage.progress": "vocabulary vocabulary.flow storage.disk storage storage.consume_queue",
    "storage.readers": "vocabulary storage.disk",
    "storage.key_index": "vocabulary storage.disk",
    "storage.log_store": (
        "vocabulary vocabulary.flow storage.disk storage storage.commit_log storage.consume_queue storage.progress "
        "storage.readers storage.key_index"
    ),
    "storage.fetch": "vocabulary wire storage.commit_log storage.consume_queue storage.readers storage.log_store",
    "storage.disk_queue.fifo": "vocabulary storage.disk",
    "storage.disk_queue": "vocabulary vocabulary.options vocabulary.flow storage.disk storage storage.disk_queue.fifo",
    "delivery": "vocabulary vocabulary.options vocabulary.flow vocabulary.latency wire storage",
    "engine.topology": "vocabulary vocabulary.flow storage.disk storage.commit_log",
    "engine.samples": (
        "vocabulary vocabulary.options storage.disk storage.commit_log storage.progress storage.log_store "
        "storage.fetch delivery"
    ),
    "engine.catalog": (
        "vocabulary vocabulary.options storage.disk storage storage.commit_log storage.consume_queue storage.progress "
        "storage.readers storage.log_store storage.disk_queue delivery engine.topology"
    ),
    "engine.acts": (
        "vocabulary vocabulary.options vocabulary.flow vocabulary.acts wire storage.progress storage.readers "
        "storage.log_store storage.fetch delivery engine.topology engine.samples engine.catalog"
    ),
    "engine.messages": (
        "vocabulary vocabulary.options vocabulary.flow vocabulary.acts storage.disk storage.commit_log "
        "storage.log_store storage.fetch storage.disk_queue delivery engine.catalog engine.acts"
    ),
    "engine.figures": "vocabulary wire storage storage.log_store delivery engine.catalog engine.acts",
    "engine": (
        "vocabulary vocabulary.options storage.disk storage storage.commit_log storage.progress storage.readers "
        "storage.log_store storage.disk_queue delivery engine.topology engine.samples engine.catalog engine.acts "
        "engine.messages engine.figures"
    ),
    "service.process": "",
    "service.act_file": "vocabulary storage.disk delivery",
    "service.tls": "vocabulary vocabulary.options",
    "service.identity": "vocabulary vocabulary.options storage.disk service.tls",
    "service.admission": "vocabulary delivery engine",
    "service.loop": "vocabulary engine",
    "service.monitoring": "vocabulary vocabulary.latency storage delivery service.admission",
    "service.introspection": "service.monitoring",
    "service.layers": "wire.protocol",
    "service.tcp": (
        "vocabulary vocabulary.options wire.protocol delivery engine service.tls service.identity service.admission "
        "service.loop service.layers"
    ),
    "service.lookup_client": "vocabulary vocabulary.options delivery engine service.loop",
    "service.http.reference": "vocabulary vocabulary.acts wire storage engine.acts engine.messages service.monitoring",
    "service.http.exchange": "vocabulary wire service.admission service.http.reference",
    "service.http": (
        "vocabulary vocabulary.options vocabulary.flow vocabulary.latency vocabulary.acts wire.protocol wire storage "
        "storage.readers storage.fetch delivery engine.acts engine.messages engine service.tls service.identity "
        "service.admission service.monitoring service.introspection service.http.reference service.http.exchange"
    ),
    "service.statsd": "vocabulary vocabulary.options delivery engine service.loop service.monitoring",
    "service": (
        "vocabulary vocabulary.options storage.disk storage.commit_log storage.disk_queue delivery engine "
        "service.act_file service.tls service.identity service.admission service.loop service.monitoring "
        "service.layers service.tcp service.lookup_client service.http service.statsd"
    ),
    "client": "vocabulary vocabulary.options wire.protocol",
    "client.tools": "vocabulary vocabulary.options client",
    "client.log_api": "vocabulary wire",
    "daemon.go_flags": "vocabulary vocabulary.options",
    "daemon": "vocabulary vocabulary.options service.process service.identity service daemon.go_flags",
    "__main__": "daemon",
    "daemon.nsqd_import": "vocabulary storage.disk storage.disk_queue.fifo engine.topology client.log_api",
    "lookup": (
        "vocabulary vocabulary.options wire.protocol service.process service.admission service.http.reference "
        "service.http.exchange daemon.go_flags daemon"
    ),
    "lake.spark": "vocabulary vocabulary.options",
    "lake.expression": "vocabulary",
    "lake.directory": "vocabulary storage.disk",
    "lake.tables": "vocabulary storage.disk",
    "lake.query": "vocabulary vocabulary.options lake.tables",
    "lake.source": "vocabulary wire storage.disk storage.commit_log client.log_api",
    "lake.job": "vocabulary vocabulary.options client.log_api lake.directory lake.tables lake.source",
    "lake.history": (
        "vocabulary storage.disk engine.samples client.log_api lake.directory lake.tables lake.source lake.job"
    ),
    "lake.archive": "vocabulary wire storage.disk client.log_api lake.directory lake.tables lake.source lake.job",
    "lake.housekeeping": "vocabulary lake.directory lake.tables lake.job lake.archive",
    "lake.replay": "vocabulary lake.expression lake.directory lake.tables lake.source lake.job lake.archive",
    "lake": (
        "vocabulary client.log_api lake.spark lake.directory lake.source lake.job lake.history lake.archive "
        "lake.housekeeping lake.replay"
    ),
    "lake.rearchive": (
        "vocabulary wire client.log_api lake.spark lake.directory lake.tables lake.source lake.job lake.archive lake"
    ),
    "lake.worker": "vocabulary storage.disk client.log_api lake.spark lake.directory lake.job lake.history lake",
}

# The same of admin_console; "console" is admin_console itself.
CONSOLE_MAY_IMPORT = {
    "vocabulary": "",
    "database": "vocabulary",
    "pacing": "",
    "graphs": "vocabulary",
    "accounts": "vocabulary database pacing",
    "migrations": "accounts",
    "cluster.calls": "vocabulary",
    "cluster.reading": "cluster.calls",
    "cluster.merging": "vocabulary cluster.calls cluster.reading",
    "cluster.lookupds": "cluster.calls cluster.reading",
    "cluster.samples": "vocabulary cluster.reading cluster.merging",
    "cluster": "vocabulary cluster.calls cluster.reading cluster.merging cluster.lookupds cluster.samples",
    "gateway": "vocabulary pacing cluster.calls cluster.reading cluster.merging cluster.lookupds cluster",
    "audit": "vocabulary database accounts gateway",
    "answers": "vocabulary database gateway",
    "rings": "",
    "diagnosis": "vocabulary gateway rings",
    "hub": "vocabulary cluster.merging gateway rings diagnosis",
    "messages": "vocabulary gateway",
    "permissions": "vocabulary accounts gateway audit answers hub",
    "security": "vocabulary pacing accounts cluster audit answers",
    "screens": "vocabulary cluster.calls cluster.reading cluster.merging gateway rings diagnosis hub permissions",
    "history": "vocabulary pacing cluster.calls gateway rings hub screens",
    "live": "vocabulary accounts cluster gateway hub permissions screens",
    "api": "gateway answers rings hub screens history",
    "views": (
        "vocabulary database pacing graphs accounts cluster.calls cluster.reading cluster.merging "
        "cluster.lookupds cluster gateway audit answers rings diagnosis hub messages permissions screens history"
    ),
    "message_views": "vocabulary gateway audit answers messages permissions views",
    "nsqadmin": (
        "vocabulary accounts cluster.calls cluster.reading cluster.lookupds cluster gateway audit answers hub "
        "permissions"
    ),
    "console": (
        "vocabulary accounts cluster.calls cluster.merging audit permissions security live views message_views nsqadmin"
    ),
    "management": "vocabulary database accounts cluster.calls cluster.merging cluster gateway audit hub views console",
    "management.commands": (
        "vocabulary database pacing graphs accounts cluster.calls cluster.reading cluster.merging cluster.samples "
        "cluster gateway audit hub permissions console management"
    ),
}

FLOORS = {"queue_engine": MAY_IMPORT, "admin_console": CONSOLE_MAY_IMPORT}

# The settings take the form of log lines from the engine: one form for both. And so are the roles, the proxies, and
# numbers of bytes as text. The audit list is a sink of the engine's records of acts.
ENGINE_IMPORTERS = (
    "admin_console.audit",
    "admin_console.cluster",
    "admin_console.gateway",
    "admin_console.management",
    "admin_console.nsqadmin_options",
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
    return ".".join(folder.relative_to(ROOT / half).parts) or top_of(half)


def top_of(half: str) -> str:
    """What the tables call the half itself."""
    return "console" if half == "admin_console" else half


def door_of(package: str) -> str:
    return package.partition(".")[0]


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def package_of(module: str) -> str:
    """As the tables name it: the folder, except for a program that stands above all folders."""
    if module.count(".") == 1 and module.endswith(".__main__"):
        return "__main__"
    is_package = python_modules()[module].name == "__init__.py"
    half, _, package = (module if is_package else module.rpartition(".")[0]).partition(".")
    return package or top_of(half)


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
        # All may import vocabulary and its rooms. The top has a row for each door, a door's page one for each room.
        del table["queue_engine"]
        for door in DOORS:
            rooms = [allowed for package, allowed in table.items() if door_of(package) == door]
            table[f"all of {door}"] = {door_of(one) for allowed in rooms for one in allowed} - {door}
        table = {
            package: {one for one in allowed if not is_within(one, "vocabulary")} for package, allowed in table.items()
        }
    assert rows_of_readmes(half) == table


def test_each_door_is_in_one_piece_and_beside_the_doors_stand_only_init_and_main() -> None:
    in_order = [door_of(package) for package in MAY_IMPORT if door_of(package) in DOORS]
    assert [door for door, before in zip(in_order, ["", *in_order], strict=False) if door != before] == list(DOORS)
    # A checkout that was there before the doors may have what Python made in folders that are gone.
    beside = {path.name for path in (ROOT / "queue_engine").iterdir() if path.is_file() or any(path.rglob("*.py"))}
    assert beside == {*DOORS, "__init__.py", "__main__.py", "README.md"}


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
