"""The limits of the worker: options of `serve`, which commands by hand know as well."""

import argparse

import pytest

from queue_engine.lake.spark.worker_limits import DEFAULT, MEMORY, NICE, PYTHON_PROCESSES, WorkerLimits, add_option
from queue_engine.vocabulary.errors import OptionsError
from queue_engine.vocabulary.options.log_options import python_processes_of
from queue_engine.vocabulary.options.options import Options

VARIABLES = ("PENSTOCK_WORKER_NICE", "PENSTOCK_WORKER_MEMORY_BYTES", "PENSTOCK_WORKER_PYTHON_PROCESSES")
REST_MS = Options().worker_rest_ms


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def parsed(*arguments: str) -> WorkerLimits:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_option(parser, NICE)
    add_option(parser, MEMORY)
    add_option(parser, PYTHON_PROCESSES)
    given = parser.parse_args(arguments)
    return WorkerLimits(given.worker_nice, given.worker_memory_bytes, given.worker_python_processes, REST_MS)


def test_beside_a_busy_program_on_its_core_the_default_priority_has_a_fifth_of_it() -> None:
    # Linux gives a process a quarter more for each step of priority.
    assert 1 / (1 + 1.25**DEFAULT.nice) >= 0.2


@pytest.mark.parametrize(
    ("chosen", "cores", "processes"), [(0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 64, 2), (1, 64, 1), (5, 2, 5)]
)
def test_where_nobody_chose_the_engine_keeps_a_core(chosen: int, cores: int, processes: int) -> None:
    assert python_processes_of(chosen, cores) == processes


def test_the_worker_gets_what_serve_was_given() -> None:
    limits = WorkerLimits.of(Options(worker_nice=19, worker_memory_bytes=3 << 30, worker_python_processes=7))
    assert parsed(*limits.arguments()) == limits == WorkerLimits(19, 3 << 30, 7, REST_MS)


def test_a_command_by_hand_takes_flag_then_variable_then_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed() == DEFAULT
    monkeypatch.setenv("PENSTOCK_WORKER_NICE", "7")
    monkeypatch.setenv("PENSTOCK_WORKER_MEMORY_BYTES", str(2 << 30))
    monkeypatch.setenv("PENSTOCK_WORKER_PYTHON_PROCESSES", "3")
    assert parsed() == WorkerLimits(7, 2 << 30, 3, REST_MS)
    assert parsed("--worker-nice=9", "--worker-python-processes=1") == WorkerLimits(9, 2 << 30, 1, REST_MS)


@pytest.mark.parametrize("text", ["20", "-1", "low", ""])
def test_a_priority_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="worker-nice"):
        parsed(f"--worker-nice={text}")


@pytest.mark.parametrize(("count", "limit"), [(-1, "the least is 0"), (257, "the most is 256")])
def test_a_number_of_processes_that_can_not_be_is_refused(count: int, limit: str) -> None:
    with pytest.raises(OptionsError, match=f"--worker-python-processes is {count}: {limit}"):
        Options(worker_python_processes=count).validate()
    with pytest.raises(argparse.ArgumentError, match=f"--worker-python-processes is {count}: {limit}"):
        parsed(f"--worker-python-processes={count}")


def test_a_rest_before_now_is_refused() -> None:
    with pytest.raises(OptionsError, match="--worker-rest is -1: the least is 0"):
        Options(worker_rest_ms=-1).validate()


def test_memory_with_which_spark_would_not_start_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"--worker-memory-bytes is 500000000: the least is 536870912"):
        Options(worker_memory_bytes=500_000_000).validate()
