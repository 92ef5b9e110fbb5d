"""What a node can do, as the gateway names it."""

import re
from pathlib import Path

import pytest

from admin_console.gateway.gateway import get_gateway
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.vocabulary.acts.table import ACTS, USES
from tests.support.pages.console import client_of, console_engine, make_user, see


def test_every_act_of_the_engine_has_a_row_in_the_table_of_kinds() -> None:
    assert ENGINE_ACTS.keys() <= ACTS.keys()


def test_an_engine_in_this_process_has_every_act_and_read(tmp_path: Path) -> None:
    with console_engine(tmp_path):
        assert get_gateway().node().capabilities == {*ACTS, *USES}


@pytest.mark.django_db
def test_what_a_kind_can_not_do_is_a_disabled_button_with_the_engines_reason(tmp_path: Path) -> None:
    with console_engine(tmp_path) as engine:
        for kind in ("log", "diskqueue"):
            engine.calls.create_topic(kind, storage=kind).result(30)
            engine.calls.create_channel(kind, "reader").result(30)
        see(engine)
        browser = client_of(make_user())
        for path, label, reason in (
            ("/topics/{}/", "Messages", "only the log can be read and rewound"),
            ("/topics/{}/", "Archive…", "only topics of the log have pipeline cursors, and can be archived"),
            ("/topics/{}/reader/", "Rewind…", "only the log can be read and rewound"),
        ):
            for kind in ("log", "diskqueue"):
                html = " ".join(browser.get(path.format(kind)).content.decode().split())
                is_disabled = re.search(rf'<span class="button" aria-disabled="true" title="[^"]*"[^>]*>{label}', html)
                assert bool(is_disabled) == (kind == "diskqueue"), (path, label, kind)
                sentence = rf">Topic {kind} has storage kind {kind}: [^<]*{reason}[;.]"
                assert bool(re.search(sentence, html)) == (kind == "diskqueue")
