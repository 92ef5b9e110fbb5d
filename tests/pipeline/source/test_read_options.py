"""What the options of the data source may be called."""

import pytest

from queue_engine.lake.source.read_options import READ_NAMES, WRITE_NAMES, read_options, write_options
from queue_engine.vocabulary.errors import ReadOptionError

READ = {"url": "http://127.0.0.1:4151", "topic": "orders"}
WRITE = READ | {"batch_key": "job"}
# A value that every option takes as whole number or as text; words have their own.
VALUES = {"read_from": "auto", "on_gap": "error", "replayed": "true"}


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("startingOffsets", "start_offset"),
        ("endingOffsets", "end_offset"),
        ("maxOffsetsPerTrigger", "max_rows_per_trigger"),
        ("max_rows_per_triger", "max_rows_per_trigger"),
        ("topics", "topic"),
        ("start-time-ms", "start_time_ms"),
        ("on_gaps", "on_gap"),
    ],
)
def test_an_option_that_does_not_exist_is_refused_with_the_nearest_name(given: str, nearest: str) -> None:
    # Spark brings names in lower case, programs as they are written.
    for name in (given, given.lower()):
        with pytest.raises(ReadOptionError, match=f"there is no option {name}: the nearest name is {nearest}$"):
            read_options(READ | {name: "1"})


@pytest.mark.parametrize("given", ["kafka.bootstrap.servers", "path", "limit", "host"])
def test_an_option_that_is_like_none_gets_the_list_and_no_unrelated_name(given: str) -> None:
    with pytest.raises(ReadOptionError, match=f"there is no option {given}: there are url, lookupd, topic, .*on_gap$"):
        read_options(READ | {given: "1"})


def test_a_write_refuses_what_only_a_read_has_and_takes_what_spark_adds() -> None:
    with pytest.raises(ReadOptionError, match=r"there is no option batchkeys: the nearest name is batch_key$"):
        write_options(WRITE | {"batchkeys": "1"})
    with pytest.raises(ReadOptionError, match="there is no option start_offset"):
        write_options(WRITE | {"start_offset": "1"})
    written = write_options(WRITE | {"checkpointlocation": "checkpoints/copies", "queryName": "copies"})
    assert written == write_options(WRITE)


def test_every_name_that_is_listed_is_taken() -> None:
    read = {name: VALUES.get(name, "7") for name in READ_NAMES if name != "lookupd"} | READ
    assert read_options(read).rows_per_trigger == 7
    assert write_options({name: VALUES.get(name, "7") for name in WRITE_NAMES} | READ).number == 7


def test_nsqlookupds_stand_in_for_the_url() -> None:
    options = read_options({"lookupd": "one:4161, http://two:4161", "topic": "orders"})
    assert (options.url, options.lookupd) == ("", ("one:4161", "http://two:4161"))


@pytest.mark.parametrize("name", ["url", "start_offset", "end_offset"])
def test_what_means_one_server_is_refused_beside_nsqlookupds(name: str) -> None:
    with pytest.raises(ReadOptionError, match=f"^lookupd and {name} are both given: "):
        read_options({"lookupd": "one:4161", "topic": "orders", name: "7"})
