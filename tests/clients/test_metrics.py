"""/metrics of a real server: Prometheus' own promtool finds nothing to complain of, and each metric is there."""

import subprocess
import urllib.error
from urllib.parse import quote

import pytest

from queue_engine.service.monitoring.families import FAMILIES
from tests.support.exposition import Figures, read_exposition
from tests.support.monitoring_files import alert_expressions, dashboard_expressions, metrics_of
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="starts a real server")

# All characters that a name may have, and the longest names.
TOPICS = ("orders", "a.b_c-D9", "t" * 64, "brief#ephemeral")
CHANNELS = ("billing", "A-b_c.d#ephemeral", "c" * 64)
# Until a job of the pipeline has run there is no state of one; the server has no certificate.
ABSENT = {
    "penstock_pipeline_job",
    "penstock_pipeline_job_in_trouble",
    "penstock_pipeline_job_lag",
    "penstock_tls_certificate_expiry_seconds",
}
OF_THE_LOG = {name for name in FAMILIES if name.split("_")[1] in ("cursor", "log", "progress", "recovery", "key")}
OF_A_QUARANTINE = {"penstock_channel_max_attempts", "penstock_channel_quarantined_bytes", "penstock_quarantine_full"}


@pytest.fixture(scope="module")
def answer(server: ServerProcess, storage_kind: str) -> bytes:
    """/metrics after messages, a consumer, a pause, a pipeline cursor and refusals of each kind."""
    for topic in map(quote, TOPICS):
        server.http("POST", f"/topic/create?topic={topic}")
        for channel in map(quote, CHANNELS):
            server.http("POST", f"/channel/create?topic={topic}&channel={channel}")
        server.http("POST", f"/mpub?topic={topic}", b"one\ntwo\nthree")
    server.http("POST", f"/topic/pause?topic={TOPICS[1]}")
    server.http("POST", f"/channel/pause?topic={TOPICS[1]}&channel={quote(CHANNELS[0])}")
    if storage_kind == "log":
        server.http("POST", "/cursor/create?topic=orders&cursor=copy&start=start")
        server.http("POST", "/channel/max_attempts?topic=orders&channel=billing&max_attempts=5")
    server.http("PUT", "/config/nsqlookupd_tcp_addresses", b'["127.0.0.1:1"]')
    with pytest.raises(urllib.error.HTTPError):
        server.http("POST", "/pub?topic=orders", b"")
    with NsqSocket(server.tcp_port) as consumer:
        consumer.subscribe("orders", "billing", rdy=10)
        for _ in range(3):
            consumer.send(b"FIN " + consumer.read_message().id + b"\n")
        wait_for("the messages to be finished", lambda: server.channel_stats("orders", "billing")["finish_count"] == 3)
        # It is measured a second after the start.
        wait_for("the audit list's size", lambda: b"\npenstock_audit_list_bytes " in server.http("GET", "/metrics"))
        return server.http("GET", "/metrics")


@pytest.fixture(scope="module")
def figures(answer: bytes) -> Figures:
    return read_exposition(answer)


def test_promtool_has_nothing_to_complain_of(answer: bytes) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=answer, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert (checked.returncode, checked.stdout.decode()) == (0, "")


def test_each_metric_of_the_table_is_there(figures: Figures, storage_kind: str) -> None:
    absent = ABSENT if storage_kind == "log" else ABSENT | OF_THE_LOG | OF_A_QUARANTINE
    assert FAMILIES.keys() - figures.kinds.keys() == absent


def test_what_the_dashboard_and_the_alerts_name_is_there(figures: Figures, storage_kind: str) -> None:
    named = set().union(*map(metrics_of, dashboard_expressions() + alert_expressions()))
    assert len(named) > 50
    absent = ABSENT if storage_kind == "log" else ABSENT | OF_THE_LOG | OF_A_QUARANTINE
    assert {name for name in named - figures.names if not name.startswith(tuple(absent))} == set()


def test_each_topic_and_channel_is_there(figures: Figures) -> None:
    assert len(figures.of("penstock_topic_depth")) == len(TOPICS)
    assert len(figures.of("penstock_channel_depth")) == len(TOPICS) * len(CHANNELS)
    assert figures['penstock_channel_finished_total{topic="orders",channel="billing"}'] == 3
    assert figures['penstock_lookupd_connected{address="127.0.0.1:1"}'] == 0
    assert figures['penstock_publishes_refused_total{reason="invalid"}'] == 1


# Files settle, and the walk over them is up to ten seconds old.
@pytest.mark.timeout(300)
def test_disk_bytes_add_up_to_what_du_says(server: ServerProcess, answer: bytes) -> None:
    def du() -> int:
        found = subprocess.run(["du", "-s", "-B1", server.data_path], check=True, capture_output=True, text=True)
        return int(found.stdout.split()[0])

    def is_equal() -> bool:
        before = du()
        kinds = read_exposition(server.http("GET", "/metrics")).of("penstock_disk_bytes")
        return before == sum(kinds.values()) == du()

    wait_for("the kinds to add up", is_equal, timeout_s=100, every_s=0.5)


def test_the_console_hands_its_figures_in(server: ServerProcess) -> None:
    before = read_exposition(server.http("GET", "/metrics")).of("penstock_failed_log_ins_total")
    assert before == {'reason="password"}': 0, 'reason="throttled"}': 0, 'reason="busy"}': 0}
    state = read_exposition(server.http("GET", "/metrics")).of("penstock_pipeline_worker")
    assert sum(state.values()) == 1
    assert [line for line in server.http("GET", "/readyz").decode().splitlines() if line.startswith("console")] == []
