"""What the process has once: it outlives requests, and has nothing of one cluster that another's pages could show."""

import ast
import importlib
import pkgutil
from enum import Enum
from pathlib import Path
from types import ModuleType

import admin_console

# Objects that the process has once, of which none has anything of a cluster, or each entry has its name. All others are
# in a PerCluster.
OF_THE_PROCESS = {
    "accounts.failed_log_ins.FailedLogIns",
    "accounts.hashing_queue.HashingQueue",
    "accounts.throttle.LoginThrottle",
    "accounts.waiting_sessions.WaitingSessions",
    "database.condition.DatabaseCondition",
    "live.open_sockets.OpenSockets",  # by session
    "pacing.pace.Pace",
    "rings.rings.Layout",
    "security.proxy.TrustedProxies",
    "vocabulary.current_cluster.PerCluster",
}
# Names of modules that functions write, and results that are cached.
WRITTEN_BY_FUNCTIONS = {
    "audit.record._on_result",
    "audit.record._row_buffer",  # its rows have their cluster's name
    "audit.upkeep._upkeep",
    "gateway.pipeline._current",
    "live.consumers._open_sockets",
    "paths._made_key",
    "cluster.reading.node_stats._is_valid",
    "gateway.tokens._complaint_of",
    "graphs.empty_figures._layout",
    "graphs.empty_figures._trace",
    "graphs.empty_figures.figures_json",
    "graphs.plotly_asset.plotly_style_ids",
    "graphs.plotly_asset.plotly_url",
    "screens.cells._element",
    "screens.cells.spark_path",
    "screens.links._url_of",  # by the cluster's prefix
    "screens.names.breakable",
    "screens.parts._empty_html",
}


def test_an_object_that_outlives_requests_is_of_one_cluster_or_of_none() -> None:
    found, written = set(), set()
    for module in _modules():
        place = module.__name__.partition(".")[2]
        written |= {f"{place}.{name}" for name in _written_by_functions(Path(str(module.__file__)).read_text())}
        for name, value in vars(module).items():
            kind = type(value)
            parameters = getattr(kind, "__dataclass_params__", None)
            is_fixed = isinstance(value, Enum | tuple) or (parameters is not None and parameters.frozen)
            if kind.__module__.startswith("admin_console.") and not is_fixed:
                found.add(f"{kind.__module__.partition('.')[2]}.{kind.__name__}")
            # Another module's is found there.
            if hasattr(value, "cache_info") and not _is_imported(module, name):
                written.add(f"{place}.{name}")
    assert found == OF_THE_PROCESS
    assert written == WRITTEN_BY_FUNCTIONS


def _modules() -> list[ModuleType]:
    importlib.import_module("admin_console.urls")  # before those of its parts, whose converters it registers
    found = pkgutil.walk_packages(admin_console.__path__, "admin_console.")
    return [importlib.import_module(name) for _, name, _ in found]


def _is_imported(module: ModuleType, name: str) -> bool:
    imports = (one for one in ast.parse(Path(str(module.__file__)).read_text()).body if isinstance(one, ast.ImportFrom))
    return any(name in (alias.asname or alias.name for alias in one.names) for one in imports)


_WRITES = frozenset(("add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "insert")) | frozenset(
    ("move_to_end", "pop", "popitem", "popleft", "remove", "setdefault", "update")
)


def _written_by_functions(source: str) -> set[str]:
    """The names of a module that its functions bind anew, or whose dicts, lists and sets they change."""
    tree = ast.parse(source)
    targets = [target for one in tree.body for target in getattr(one, "targets", [getattr(one, "target", None)])]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    found = set()
    for one in (node for function in functions for node in ast.walk(function)):
        if isinstance(one, ast.Global):
            found |= set(one.names)
        changed = None
        if isinstance(one, ast.Subscript) and not isinstance(one.ctx, ast.Load):
            changed = one.value
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _WRITES:
            changed = one.func.value
        if isinstance(changed, ast.Name) and changed.id in names:
            found.add(changed.id)
    return found


def test_a_write_of_a_function_to_its_module_is_found() -> None:
    source = "A = {}\nB: list = []\nC = 0\nD = {1: 2}\ndef f():\n    global C\n    A[1] = 2\n    B.append(D[1])\n"
    assert _written_by_functions(source) == {"A", "B", "C"}
