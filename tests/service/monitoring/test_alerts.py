"""The alert rules: promtool checks them, each fires and keeps quiet when it should."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.service.monitoring.alert_cases import CASES, INSTANCE, AlertCase, series
from tests.support.monitoring_files import ALERTS


def promtool(*arguments: str) -> str:
    """What it prints; AssertionError with that when it complains."""
    done = subprocess.run(["promtool", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def actions() -> dict[str, str]:
    """Alert → what the rule's action says."""
    return dict(re.findall(r'- alert: (\w+)\n(?:(?!- alert).)*?action: "(.*?)"\n', ALERTS.read_text(), re.DOTALL))


def test_promtool_accepts_the_rules() -> None:
    shown = promtool("check", "rules", str(ALERTS))
    assert f"SUCCESS: {len(actions())} rules found" in shown


def test_each_alert_has_cases() -> None:
    assert {case.alert for case in CASES} == set(actions())


def _tests_of(case: AlertCase, action: str) -> list[dict[str, object]]:
    labels = {"severity": case.severity, "instance": INSTANCE, **case.labels}
    if case.has_job:
        labels["job"] = "penstock"
    fired = {"exp_labels": labels, "exp_annotations": {"summary": case.summary, "action": action}}
    return [
        {
            "interval": "1m",
            "input_series": [{"series": series(name), "values": values} for name, values in given.items()],
            "alert_rule_test": [{"eval_time": f"{case.minutes}m", "alertname": case.alert, "exp_alerts": expected}],
        }
        for given, expected in ((case.fires, [fired]), (case.quiet, []))
    ]


@pytest.mark.slow(reason="promtool computes hours of each alert")
def test_each_alert_fires_and_keeps_quiet(tmp_path: Path) -> None:
    found = actions()
    tests = [test for case in CASES for test in _tests_of(case, found[case.alert])]
    # JSON is YAML, too.
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(path))
