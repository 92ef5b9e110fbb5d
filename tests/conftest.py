"""What every test gets: an audit table that can be emptied between tests, a throttle without memory, a storage kind."""

import gc
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from admin_console.accounts.throttle import throttle
from queue_engine.vocabulary.log_lines import LineHandler
from tests.support import run_costs, second_try, storage_kinds
from tests.support.certificates import Certificates
from tests.support.disks import left_open

# Every run tries the same examples, however long one takes: a run that fails has changed something.
# `--hypothesis-profile=default` tries others.
hypothesis.settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    run_costs.store_bytecode()
    config.pluginmanager.register(second_try)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # what a collection makes stays
    run_costs.import_share(session.config)


def pytest_collection_finish() -> None:
    """Nine thousand tests live to the end: the collector need not look at them again and again."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.work_units import UnitScheduling  # a run in one process needs no pytest-xdist

    return UnitScheduling(config, log)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    path = metafunc.definition.path.relative_to(Path(__file__).parent)
    kinds = storage_kinds.kinds_of(metafunc.function.__name__, path.as_posix())
    if kinds:
        slow = pytest.mark.slow(reason="the first kind has the same test")
        values = [kinds[0], *(pytest.param(kind, marks=slow) for kind in kinds[1:])]
        metafunc.parametrize("storage_kind", values, indirect=True, scope=storage_kinds.BOTH[path.parts[0]])


@pytest.fixture(autouse=True)
def storage_kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The storage kind that engines and servers of this test get; "" for the default.

    Folders whose tests share a server have one of a wider scope: see storage_kinds.BOTH.
    """
    with storage_kinds.chosen(request) as kind:
        yield kind


@pytest.fixture(scope="module", autouse=True)
def _directories() -> Iterator[set[Path]]:
    """The temporary directories of this file's tests; what the tests left open in them is closed after the last one."""
    directories: set[Path] = set()
    yield directories
    count = left_open.close_below(directories)
    assert count <= left_open.DESCRIPTORS_MAX, (
        f"{count} descriptors are open after this file, {left_open.DESCRIPTORS_MAX} may be"
    )


@pytest.fixture(autouse=True)
def _noted_directory(request: pytest.FixtureRequest, _directories: set[Path]) -> Iterator[None]:
    yield
    directory = request.node.funcargs.get("tmp_path")
    if directory is not None:
        _directories.add(directory)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority's, a server's and a client's certificate, and a stranger's, in files."""
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session", autouse=True)
def _counts_are_written() -> Iterator[None]:
    """Writes the counts of lines that were left out while their stream is there: a process of pytest-xdist that is done
    early lives on, and its handlers have a timer."""
    yield
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.close()


@pytest.fixture(scope="session", autouse=True)
def _signals_end_processes() -> Iterator[None]:
    """Servers of the tests heed SIGHUP also when nohup started the tests, and SIGINT when a shell did in the
    background: a child inherits that it is ignored."""
    before = {signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: object) -> None:
    """Between tests the database is emptied, which the audit table forbids; test_audit proves that it does."""
    from django.db import connection

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER IF EXISTS audit_row_is_never_removed")


@pytest.fixture(autouse=True)
def _forgiving_throttle() -> None:
    throttle._lines.clear()
