"""A real Prometheus reads a real server: the dashboard's queries and the alert rules have answers."""

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.monitoring_files import ALERTS, DASHBOARD, dashboard_expressions
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.ports import free_ports
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.slow(reason="Prometheus needs some scrapes, a second apart"),
    pytest.mark.timeout(300),
]

# A server of its first minutes has none of these.
MAY_BE_EMPTY = ("penstock_pipeline_job_lag", "penstock_cursor_")


class Prometheus:
    """Its HTTP API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer. Raises HTTPError for an expression that is wrong."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/{path}?{query}", timeout=60) as answer:
            found = json.load(answer)
        assert found["status"] == "success", found
        assert "warnings" not in found, found
        return found["data"]

    def value(self, expression: str) -> float:
        """Of an expression with one sample; 0 without any."""
        result = self.ask("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else 0.0


@pytest.fixture(scope="module")
def prometheus(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has scraped the server some times while messages were published and finished."""
    directory = tmp_path_factory.mktemp("prometheus")
    (port,) = free_ports(1)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {"job_name": "penstock", "static_configs": [{"targets": [f"127.0.0.1:{server.http_port}"]}]}
        ],
    }
    (directory / "prometheus.yml").write_text(json.dumps(config))
    log = (directory / "log").open("wb")
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={directory}/prometheus.yml",
            f"--storage.tsdb.path={directory}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=log,
        stderr=log,
    )
    found = Prometheus(port)
    try:
        wait_for("Prometheus to answer", lambda: _answers(found), timeout_s=60)
        server.http("POST", "/topic/create?topic=orders")
        server.http("POST", "/channel/create?topic=orders&channel=billing")
        # The log, and a message that waits.
        server.http("POST", "/topic/create?topic=waiting&storage=log")
        server.http("POST", "/channel/create?topic=waiting&channel=nobody")
        server.http("POST", "/pub?topic=waiting", b"one")
        with NsqSocket(server.tcp_port) as consumer:
            consumer.subscribe("orders", "billing", rdy=10)

            def is_scraped() -> bool:
                """Publish and finish one message more, until rates have something to count."""
                server.http("POST", "/pub?topic=orders", b"one")
                consumer.send(b"FIN " + consumer.read_message().id + b"\n")
                return (
                    found.value("min_over_time(penstock_messages_finished_total[1m])")
                    < found.value("penstock_messages_finished_total")
                    and found.value("count_over_time(up[1m])") >= 5
                )

            wait_for("five scrapes", is_scraped, timeout_s=90, every_s=0.5)
            yield found
    finally:
        process.terminate()
        process.wait(60)
        log.close()


def _answers(prometheus: Prometheus) -> bool:
    try:
        return bool(prometheus.ask("status/buildinfo"))
    except OSError:
        return False


def test_the_server_is_scraped_without_an_error(prometheus: Prometheus) -> None:
    """A scrape may take a second: on a machine that stalls one of them takes longer."""

    def is_well() -> bool:
        (target,) = prometheus.ask("targets")["activeTargets"]
        return (target["health"], target["lastError"]) == ("up", "")

    wait_for("a scrape without an error", is_well)


def test_each_query_of_the_dashboard_has_an_answer(prometheus: Prometheus) -> None:
    empty = []
    for expression in dashboard_expressions():
        query = expression.replace("$instance", ".*").replace("$topic", ".*").replace("$__rate_interval", "1m")
        if not prometheus.ask("query", query=query)["result"]:
            empty.append(expression)
    assert [one for one in empty if not any(name in one for name in MAY_BE_EMPTY)] == []


def test_the_variables_of_the_dashboard_have_values(prometheus: Prometheus) -> None:
    assert len(prometheus.ask("label/instance/values")) == 1
    assert prometheus.ask("label/topic/values", **{"match[]": "penstock_topic_depth"}) == ["orders", "waiting"]
    assert "penstock_topic_depth" in DASHBOARD.read_text()


def test_each_alert_rule_is_evaluated_and_none_fires(prometheus: Prometheus) -> None:
    def evaluated() -> list[dict[str, Any]]:
        (group,) = prometheus.ask("rules")["groups"]
        rules: list[dict[str, Any]] = group["rules"]
        return rules if all(rule["health"] != "unknown" for rule in rules) else []

    rules = wait_for("the rules to be evaluated", evaluated, timeout_s=60)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
