"""What nsqd's flags mean to the daemon."""

import io
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.daemon.daemon_options import DaemonOptions
from queue_engine.daemon.flags import FLAGS_OF_NSQD, LOG_PREFIX, field_of, flag_set
from queue_engine.daemon.go_flags.flag import FlagType
from queue_engine.daemon.nsqd_lines import NsqdLines
from queue_engine.vocabulary.errors import OptionsError

# Every flag of nsqd 1.3.0, by kind of value.
BARE = "deflate snappy statsd-exclude-ephemeral statsd-mem-stats tls-required verbose worker-id"
DURATIONS = (
    "e2e-processing-latency-window-time http-client-connect-timeout http-client-request-timeout max-heartbeat-interval "
    "max-msg-timeout max-output-buffer-timeout max-req-timeout min-output-buffer-timeout msg-timeout "
    "output-buffer-timeout statsd-interval sync-timeout"
)
INTS = (
    "broadcast-http-port broadcast-tcp-port max-body-size max-bytes-per-file max-channel-consumers max-deflate-level "
    "max-msg-size max-output-buffer-size max-rdy-count mem-queue-size node-id queue-scan-selection-count "
    "queue-scan-worker-pool-max statsd-udp-packet-size sync-every"
)
TEXTS = (
    "auth-http-address auth-http-request-method broadcast-address data-path enable-experiment http-address "
    "https-address log-level log-prefix lookupd-tcp-address statsd-address statsd-prefix tcp-address tls-cert "
    "tls-client-auth-policy tls-key tls-min-version tls-root-ca-file topology-region topology-zone"
)
FLOATS = "e2e-processing-latency-percentile"


def read(*arguments: str, **environment: str) -> DaemonOptions:
    return DaemonOptions.of(flag_set().read(arguments), environment)


def complaints_of(*arguments: str, **environment: str) -> list[str]:
    with pytest.raises(OptionsError) as raised:
        read(*arguments, **environment).check()
    return raised.value.complaints


def test_the_table_has_every_flag_of_nsqd() -> None:
    names = f"{BARE} {DURATIONS} {INTS} {TEXTS} {FLOATS}".split()
    assert sorted(flag.name for flag in FLAGS_OF_NSQD) == sorted(names)


def test_the_help_lists_nothing_of_the_pipeline_that_the_daemon_has_not() -> None:
    names = set(re.findall(r"^  -([a-z0-9-]+)", "\n".join(flag_set().usage()), re.MULTILINE))
    assert {name for name in names if name.startswith("worker")} == {"worker-id"}  # nsqd's own
    assert "log-retention" in names


def test_a_flag_acts_or_a_sentence_says_that_it_does_not() -> None:
    value = {
        FlagType.DURATION: "30s",
        FlagType.INT: "3",
        FlagType.FLOATS: "0.99",
        FlagType.BOOL: "true",
        FlagType.SWITCH: "true",
    }
    for flag in FLAGS_OF_NSQD:
        options = read(f"--{flag.name}={value.get(flag.kind, 'text')}")
        told = [one for one in options.notes if one.startswith(f"--{flag.name} has no effect: ")]
        acts = field_of(flag.name) is not None or flag.name == LOG_PREFIX
        assert len(told) == (0 if acts else 1), flag.name
        assert bool(flag.note) != acts, flag.name


def test_values_reach_the_engine() -> None:
    options = read(
        "--mem-queue-size=0",
        "-msg-timeout",
        "30s",
        "--requeue-on-disconnect=false",
        "--allowed-host=a",
        "--allowed-host",
        "b",
        "--log-level=WARN",
        "--node-id=7",
    )
    options.check()
    engine = options.engine
    assert (engine.mem_queue_size, engine.msg_timeout_ms, engine.requeue_on_disconnect) == (0, 30_000, False)
    assert (engine.allowed_host, engine.log_level, engine.node_id) == (("a", "b"), "warning", 7)


def test_defaults_are_nsqds() -> None:
    engine = read().engine
    assert (engine.tcp_address, engine.http_address) == ("0.0.0.0:4150", "0.0.0.0:4151")
    assert engine.https_address == "0.0.0.0:4152"
    assert (engine.data_path, engine.storage) == (os.getcwd(), "diskqueue")
    assert (engine.mem_queue_size, engine.max_msg_size, engine.sync_every) == (10_000, 1 << 20, 2_500)


def test_a_flag_is_stronger_than_the_configuration_file_and_that_than_the_environment(tmp_path: Path) -> None:
    config = tmp_path / "nsqd.cfg"
    config.write_text("mem_queue_size = 2\nsync_every = 2\nid = 5\n")
    variables = {
        "PENSTOCK_MEM_QUEUE_SIZE": "3",
        "PENSTOCK_SYNC_EVERY": "3",
        "PENSTOCK_MAX_RDY_COUNT": "3",
        "PENSTOCK_HTTP_TOKEN": "secret",
    }
    engine = read(f"--config={config}", "--mem-queue-size=1", **variables).engine
    assert (engine.mem_queue_size, engine.sync_every, engine.max_rdy_count, engine.node_id) == (1, 2, 3, 5)
    assert engine.http_token == "secret"


def test_all_complaints_come_together_and_name_the_flag() -> None:
    assert complaints_of("--max-rdy-count=0", "--tcp-address=nowhere", PENSTOCK_SYNC_EVERY="many") == [
        "PENSTOCK_SYNC_EVERY: 'many' is not a whole number",
        "--max-rdy-count is 0: the least is 1",
        "--tcp-address: 'nowhere' is not HOST:PORT",
    ]


def test_a_key_of_the_configuration_file_that_is_no_flag_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "nsqd.cfg"
    config.write_text('tcp_adress = "x"\n')
    assert read(f"--config={config}").notes == ("--config: tcp_adress is no flag, and has no effect",)


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(NsqdLines("[nsqd] "))
    logger = logging.getLogger("tests.daemon")
    logger.addHandler(handler)
    yield logger, stream
    logger.removeHandler(handler)


def test_lines_have_nsqds_form(written: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = written
    logger.warning("a name\nwith a line")
    logger.critical("over")
    day = r"\[nsqd\] [0-9]{4}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}"

    assert re.fullmatch(rf"{day} WARNING: a name\\nwith a line\n{day} FATAL: over\n", stream.getvalue())
