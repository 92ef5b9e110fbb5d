"""The scenes that pictures are taken of: what each page is to show is there, and so is the button that it opens."""

import html
import re
from pathlib import Path

import pytest

from admin_console.permissions.table import ACTS
from tests.browser.act_forms import OF_PROGRAMS, OF_SCENES, forms
from tests.browser.scenes import CHANNELS, pages_of_scenes, scenes
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow(reason="a real server with consumers that fail")


def test_every_page_of_the_scenes_is_there_with_its_button(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server, scenes(server):
        client = ConsoleClient(server.console_port)
        client.log_in()
        chips = {name: set[str]() for name in CHANNELS}

        def all_have_a_state() -> bool:
            for name, seen in chips.items():
                seen |= set(re.findall(r'class="chip[^"]*"[^>]*>([^<]+)<', client.get(f"/topics/{name}/").text))
            return all(chips.values())

        # What each is about is the rules' own matter; a channel without any would be an empty picture.
        wait_for("each channel of the scenes to have a state", all_have_a_state)
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
    assert {*OF_SCENES, *OF_PROGRAMS} == set(ACTS)
    assert not set(OF_SCENES) & set(OF_PROGRAMS)
