"""Sizes of bodies, clustered around every limit that the engine's code has: a limit that is new is among them."""

import importlib
import pkgutil
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import cache

import queue_engine
from queue_engine.storage.commit_log.record import HEADER_BYTES, SEAL_BYTES
from queue_engine.storage.disk_queue.fifo.format import LENGTH_BYTES
from queue_engine.vocabulary.message import FRAME_HEADER_BYTES, STORED_HEADER_BYTES
from queue_engine.vocabulary.options.options import Options

_NAME = re.compile(r"(^|_)(BYTES|SIZE)(_|$)")
# What stands around a body where a limit counts more than the body.
_AROUND = (0, LENGTH_BYTES, STORED_HEADER_BYTES, STORED_HEADER_BYTES + LENGTH_BYTES, FRAME_HEADER_BYTES)
_RECORD = (2 * HEADER_BYTES, SEAL_BYTES)
_LIMIT_BYTES_MIN = 64
_SMALL_BYTES_MAX = 300


@cache
def limits_of_the_code() -> dict[str, int]:
    """Every constant of the engine that is named after bytes or a size: `module.NAME` → bytes."""
    found: dict[str, int] = {}
    for module in _modules():
        for name, value in vars(module).items():
            if type(value) is int and name.isupper() and _NAME.search(name) and value >= _LIMIT_BYTES_MIN:
                found[f"{module.__name__}.{name}"] = value
    return found


def _modules() -> Iterator[object]:
    for info in pkgutil.walk_packages(queue_engine.__path__, "queue_engine."):
        # The pipeline is no part of the broker, and importing it needs what a broker does without.
        if ".lake" not in info.name:
            yield importlib.import_module(info.name)


def limits_of(options: Options) -> dict[str, int]:
    """Every option that is named after bytes or a size: name → bytes."""
    named = {spec.name: getattr(options, spec.name) for spec in fields(options) if _NAME.search(spec.name.upper())}
    return {name: value for name, value in named.items() if type(value) is int and value >= _LIMIT_BYTES_MIN}


class BodySizes:
    """Draws sizes from 1 to `bytes_max` by `rng`; most are small, so that a run is not all copying."""

    def __init__(self, rng: random.Random, limits: Iterable[int], bytes_max: int) -> None:
        self.rng = rng
        self._bytes_max = bytes_max
        near = sorted({limit for limit in limits if limit <= 2 * bytes_max} | {bytes_max})
        self._small = [limit for limit in near if limit <= 70 << 10] or near
        self._large = [limit for limit in near if limit > 70 << 10] or near

    def draw(self) -> int:
        rng = self.rng
        kind = rng.random()
        if kind < 0.5:
            size = rng.randint(1, _SMALL_BYTES_MAX)
        elif kind < 0.8:
            size = rng.choice(self._small) - rng.choice(_AROUND) + rng.choice((-1, 0, 0, 1))
        elif kind < 0.9:
            size = rng.choice(self._small) // rng.choice((1, 2, 3)) + rng.randint(-200, 200) - rng.choice(_RECORD)
        elif kind < 0.97:
            size = rng.choice(self._large) // rng.choice((1, 1, 2, 3)) - rng.choice(_AROUND) + rng.choice((-1, 0, 1))
        else:
            size = rng.randint(1, self._bytes_max)
        return min(max(size, 1), self._bytes_max)
