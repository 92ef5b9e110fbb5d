"""What a node can do, as the gateway names it."""

from pathlib import Path

from admin_console.gateway.act_table import ACTS
from admin_console.gateway.gateway import get_gateway
from queue_engine.act_kinds import ACT_KINDS
from tests.support.pages.console import console_engine


def test_every_act_of_the_engine_has_a_row_in_the_table_of_kinds() -> None:
    assert {act.name for act in ACTS.values() if act.method} <= set(ACT_KINDS)


def test_an_engine_in_this_process_has_every_act_and_read(tmp_path: Path) -> None:
    with console_engine(tmp_path):
        assert get_gateway().node().capabilities == {*ACTS, *ACT_KINDS}
