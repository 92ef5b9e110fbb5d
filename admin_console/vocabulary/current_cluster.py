"""Which cluster the running code works for: the unnamed one, or one of the names of `--lookupd-http-address`.

The path of a request says which (security/cluster_prefix.py). The objects of one cluster lie in `PerCluster`s under the
cluster's name: code that works for one never gets an object of another. A new thread works for the unnamed one, so
that work of a request is given to threads with a copy of its context.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

T = TypeVar("T")

NAME_WORDS = "1 to 32 of a-z, 0-9 and -, the first no -"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
PREFIX = "/clusters/"

_current: ContextVar[str] = ContextVar("cluster", default="")


def is_cluster_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def current_cluster() -> str:
    """Its name; "" for the unnamed one."""
    return _current.get()


def enter_cluster(name: str) -> None:
    """Work for this one in the rest of the context."""
    _current.set(name)


@contextmanager
def in_cluster(name: str) -> Iterator[None]:
    """Work for this one inside."""
    before = _current.set(name)
    try:
        yield
    finally:
        _current.reset(before)


def in_this_cluster(work: Callable[[], None]) -> Callable[[], None]:
    """The same work for a new thread, where it is for the cluster of now."""
    name = current_cluster()

    def run() -> None:
        with in_cluster(name):
            work()

    return run


class ClusterNameFilter(logging.Filter):
    """Puts the name before the lines of code that works for a cluster with a name: nodes of two may have one name."""

    def filter(self, record: logging.LogRecord) -> bool:
        if name := current_cluster():
            record.msg = f"cluster {name}: {record.msg}"
        return True


def path_of(name: str) -> str:
    """The beginning of its paths, below the console's own: `/clusters/prod`; "" for the unnamed one."""
    return f"{PREFIX}{name}" if name else ""


def file_of(name: str, cluster: str) -> str:
    """The file of a cluster in the data directory: `cluster.json` → `cluster.prod.json`; "" has it as it is."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}.{cluster}{dot}{ending}" if cluster else name


def split_path(path: str) -> tuple[str, str]:
    """`/clusters/prod/topics/` → `prod` and `/topics/`; any other path is as it is, of the unnamed one."""
    if not path.startswith(PREFIX):
        return "", path
    name, slash, rest = path[len(PREFIX) :].partition("/")
    return (name, f"/{rest}") if slash and is_cluster_name(name) else ("", path)


class PerCluster(Generic[T]):
    """One object for each cluster. Any thread. make: makes one when it is first read; without it there is none before
    `put`."""

    def __init__(self, make: Callable[[], T] | None = None) -> None:
        self._make = make
        self._by_name: dict[str, T] = {}

    def get(self) -> T | None:
        """That of the current cluster."""
        return self._by_name.get(_current.get())

    def made(self) -> T:
        """That of the current cluster, made where there is none."""
        found = self.get()
        if found is None:
            assert self._make is not None, "there is no way to make one"
            found = self._by_name.setdefault(_current.get(), self._make())
        return found

    def put(self, one: T | None) -> None:
        """For the current cluster; None for none."""
        if one is None:
            self._by_name.pop(_current.get(), None)
        else:
            self._by_name[_current.get()] = one

    @property
    def names(self) -> tuple[str, ...]:
        """Of the clusters that have one, in the order in which they got it."""
        return tuple(self._by_name)
