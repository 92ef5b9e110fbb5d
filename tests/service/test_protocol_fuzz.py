"""Hostile input without sockets: a small part of `python -m tests.service.protocol_fuzz`."""

from pathlib import Path

from tests.service.protocol_fuzz import fuzz

INPUTS = 2_000


async def test_hostile_input_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    await fuzz(tmp_path, inputs=INPUTS, seed=4150, checks_memory=False)
