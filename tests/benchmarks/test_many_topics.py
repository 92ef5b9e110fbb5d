"""Many topics at a tenth, and deferred messages, much fewer: nothing is missing, and it takes what a tenth may take."""

from pathlib import Path

import pytest

from tests.benchmarks.many_topics import TARGETS_S, Step, many_deferred, many_topics

TOPICS = 1_000
DEFERRED = 3_000  # each is published by itself
# The machine may be busy with other tests, and a start has more to do than open topics.
PATIENCE = 4

pytestmark = pytest.mark.slow(reason="creates a thousand topics in a real server")


def check(steps: list[Step], names: set[str]) -> None:
    assert {step.name for step in steps} == names
    late = [step.line() for step in steps if step.wall_s > PATIENCE * TARGETS_S[step.name]]
    assert late == []


@pytest.mark.timeout(400)
def test_a_thousand_topics_are_created_listed_found_again_and_stopped(tmp_path: Path) -> None:
    steps = many_topics(tmp_path / "data", TOPICS)
    check(steps, {"create", "stats", "restart", "stop"})
    # Each took 27 ms when the whole file was written for it, and more with every topic; alone it takes 6.
    create = next(step for step in steps if step.name == "create")
    assert create.cpu_s < 0.020 * TOPICS


@pytest.mark.timeout(200)
def test_deferred_messages_are_found_again(tmp_path: Path) -> None:
    check(many_deferred(tmp_path / "data", DEFERRED), {"start with deferred"})
