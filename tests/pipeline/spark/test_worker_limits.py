"""The worker's priority and memory: the options of `serve`, which commands by hand know as well."""

import argparse

import pytest

from queue_engine.pipeline.spark.worker_limits import DEFAULT, MEMORY, NICE, WorkerLimits, add_option
from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options import Options

VARIABLES = ("PENSTOCK_WORKER_NICE", "PENSTOCK_WORKER_MEMORY_BYTES")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def parsed(*arguments: str) -> WorkerLimits:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_option(parser, NICE)
    add_option(parser, MEMORY)
    given = parser.parse_args(arguments)
    return WorkerLimits(given.worker_nice, given.worker_memory_bytes)


def test_beside_a_busy_program_on_its_core_the_default_priority_has_a_fifth_of_it() -> None:
    # Linux gives a process a quarter more for each step of priority.
    assert 1 / (1 + 1.25**DEFAULT.nice) >= 0.2


def test_the_worker_gets_what_serve_was_given() -> None:
    limits = WorkerLimits.of(Options(worker_nice=19, worker_memory_bytes=3 << 30))
    assert parsed(*limits.arguments()) == limits == WorkerLimits(19, 3 << 30)


def test_a_command_by_hand_takes_flag_then_variable_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed() == DEFAULT
    monkeypatch.setenv("PENSTOCK_WORKER_NICE", "7")
    monkeypatch.setenv("PENSTOCK_WORKER_MEMORY_BYTES", str(2 << 30))
    assert parsed() == WorkerLimits(7, 2 << 30)
    assert parsed("--worker-nice=9") == WorkerLimits(9, 2 << 30)


@pytest.mark.parametrize("text", ["20", "-1", "low", ""])
def test_a_priority_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="worker-nice"):
        parsed(f"--worker-nice={text}")


def test_memory_with_which_spark_would_not_start_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"--worker-memory-bytes is 500000000: the least is 536870912"):
        Options(worker_memory_bytes=500_000_000).validate()
