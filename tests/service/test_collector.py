"""How long the interpreter's collector stops the engine while much is made."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from queue_engine.service.runner import quiet_collector

LOOKED_AT_MAX = 30_000  # some 10 ms on a slow machine


@pytest.fixture
def quiet() -> Iterator[None]:
    before = gc.get_threshold()
    quiet_collector()
    yield
    gc.set_threshold(*before)  # what is frozen stays so: all tests' objects are


def test_no_collection_of_young_objects_looks_at_many(quiet: None) -> None:
    looked_at: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] < 2:
            looked_at.append(sum(len(gc.get_objects(one)) for one in range(info["generation"] + 1)))

    gc.callbacks.append(note)
    try:
        made = [[number] for number in range(300_000)]
    finally:
        gc.callbacks.remove(note)
    assert len(made) == 300_000
    assert len(looked_at) > 10
    assert max(looked_at) < LOOKED_AT_MAX
