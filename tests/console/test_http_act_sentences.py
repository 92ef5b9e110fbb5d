"""Each act over HTTP has a row in the audit list, with a sentence that says what was done."""

import logging
from pathlib import Path

import pytest

from admin_console.audit.engine_acts import row_of
from queue_engine.delivery.stats import ActRecord
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.rules import PATHS
from tests.service.http.good_requests import prepared
from tests.service.http.server import http_server


async def test_each_act_that_is_done_over_http_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        good = await prepared(server)
        last = sorted(
            PATHS, key=lambda path: (path.endswith("/delete") or path == "/log/release", path.startswith("/topic"))
        )
        for path in last:
            await good.send(path)
        acts = {path for path in PATHS if PATHS[path].method == "POST"}
        told = {record.action: row_of(record) for record in server.acts}
    assert len(acts) > 30
    for action in ("set_max_attempts", "redrive_channel", "finish_messages", "restore_trash", "pause_channel"):
        assert action in told
    assert {action: act.message for action, act in told.items() if not act.message.endswith(".")} == {}


def test_an_act_whose_row_fails_is_answered_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """The act is done by then: its client must hear so, and not wait for ever."""

    def fails(record: ActRecord) -> None:
        raise KeyError(record.action)

    with caplog.at_level(logging.ERROR):
        HttpAudit(fails).tell(ActRecord("pause_channel", "orders", "billing", "127.0.0.1", "", None))
    assert "act not audited action=pause_channel topic=orders channel=billing" in caplog.text
