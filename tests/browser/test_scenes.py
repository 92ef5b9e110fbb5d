"""The scenes that pictures are taken of: what each page is to show is there, and so is the button that it opens."""

import html
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from django.urls import resolve

from admin_console.permissions.table import ACTS
from tests.browser.act_forms import OF_PROGRAMS, OF_SCENES, forms, open_dialog
from tests.browser.pages import pages_of
from tests.browser.program_scenes import pages_of_programs
from tests.browser.scenes import CHANNELS, SERVER_OPTIONS, pages_of_scenes, scenes
from tests.browser.step_scenes import pages_of_steps
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="a real server with consumers that fail")

# Where no server runs that knows them.
KNOWN = {"trash": "7", "token": "3f2a91c07b5e", "node": "127.0.0.1:4151", "replay": "20260101-000000-0000"}


def test_every_page_of_the_scenes_is_there_with_its_button(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline", *SERVER_OPTIONS]) as server, scenes(server):
        client = ConsoleClient(server.console_port)
        client.log_in()
        chips = {name: set[str]() for name in CHANNELS}

        def all_have_a_state() -> bool:
            for name, seen in chips.items():
                seen |= set(re.findall(r'class="chip[^"]*"[^>]*>([^<]+)<', client.get(f"/topics/{name}/").text))
            return all(chips.values())

        # What each is about is the rules' own matter; a channel without any would be an empty picture.
        # That consumers are full shows after 23 s on an idle machine.
        wait_for("each channel of the scenes to have a state", all_have_a_state, timeout_s=120.0)
        forms_of_acts = [page for page in forms(OF_SCENES) if page.name.startswith("form-")]
        for page in (*pages_of_scenes(), *forms_of_acts):
            answer = client.get(page.path)
            # A search begins with a page of its own.
            assert answer.status == (302 if "text=" in page.path else 200), page.path
            if page.act:
                assert f"{page.act}</a>" in html.unescape(answer.text), page.name
            if page in forms_of_acts:
                assert "act-buttons" in answer.text, page.path
            assert answer.text.count('type="checkbox"') >= page.selects, page.name
            assert answer.text.count('class="unfold"') >= page.opens, page.name
        client.close()


def test_every_act_has_pictures_of_its_question() -> None:
    """Among the pages that are taken, each at a path that is the act's own: its form, and its dialog."""
    assert {*OF_SCENES, *OF_PROGRAMS} == set(ACTS)
    assert not set(OF_SCENES) & set(OF_PROGRAMS)
    taken = {page.name: page for page in (*pages_of_steps(), *pages_of_programs(KNOWN))}
    for act in ACTS:
        form, dialog = (taken.get(f"{kind}-{act.replace('_', '-')}") for kind in ("form", "act"))
        assert form is not None, act
        assert resolve(form.path.partition("?")[0]).view_name == act
        assert dialog is not None, act
        assert isinstance(dialog.steps, partial)
        assert (dialog.steps.func, dialog.steps.keywords) == (open_dialog, {"url": form.path})


def test_no_picture_replaces_another() -> None:
    pages = (*pages_of("a", "b"), *pages_of_scenes(), *pages_of_steps(), *pages_of_programs(KNOWN))
    assert [name for name, count in Counter(page.name for page in pages).items() if count > 1] == []
