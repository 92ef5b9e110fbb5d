"""Pictures of every page, light and dark, wide and narrow, for eyes to judge; only README's two are kept in git.

    python -m tests.browser.screenshots [DIRECTORY [NAME…]]   (default: .screenshots; only pages whose names begin so)
    python -m tests.browser.screenshots --readme              the two of README, in .github; a quarter of an hour

The pages are those of `serve --demo` after it has run for a while, so that they look as a newcomer sees them; those
of trouble, of messages and of the trash are of scenes.py, what unfolds or was done of step_scenes.py, every act's
question of act_forms.py, an archive, tokens, nsqlookupds and a server without anything of program_scenes.py.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page
from playwright.sync_api import Error as PlaywrightError

from tests.browser.pages import ConsolePage, pages_of
from tests.browser.program_scenes import nothing_done, programs
from tests.browser.scenes import SERVER_OPTIONS, pages_of_scenes, scenes
from tests.browser.step_scenes import pages_of_steps
from tests.support.pages.browser import chromium, close
from tests.support.pages.console_page import open_act
from tests.support.processes.server import ADMIN_PASSWORD, ADMIN_USER, ROOT, ServerProcess
from tests.support.waiting import wait_for

SIZES = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 360, "height": 740}}
THEMES = ("light", "dark")
VIEWER_PASSWORD = "only looking, not touching"
WARM_UP_S = 45  # of demo traffic before the first picture
GRAPHS_TIMEOUT_S = 15.0
HEIGHT_MAX = 12_000  # of the longest page, at 360 pixels
ALL_DRAWN = "[...document.querySelectorAll('.plot:not(.js-plotly-plot)')].every((p) => !p.checkVisibility())"
# A graph that is not in view keeps its colours.
ALL_DRESSED = """[...document.querySelectorAll(".js-plotly-plot")].every((p) => !p.checkVisibility()
    || p.getBoundingClientRect().top > innerHeight
    || p.layout.font.color === getComputedStyle(document.body).color)"""
README_SIZE = {"width": 1280, "height": 800}
README_WARM_UP_S = 900  # what the live graphs show
README_BYTES_MAX = 400 << 10  # both together: every clone carries them


def main(directory: Path, only: tuple[str, ...] = ("",)) -> None:
    """Write every picture to `directory`, a line each on standard output. only: what the pages' names begin with.

    A page that can't be taken keeps no other one waiting: SystemExit names all such pages at the end.
    """
    directory.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    with chromium() as browser:
        for stage in (_demo, programs, nothing_done):
            with tempfile.TemporaryDirectory() as data, stage(Path(data)) as (server, pages):
                _add_viewer(server)
                tabs = {"": _tab(browser, server, "", ""), "admin": _tab(browser, server, ADMIN_USER, ADMIN_PASSWORD)}
                tabs["vera"] = _tab(browser, server, "vera", VIEWER_PASSWORD)
                for wanted in pages:
                    if not wanted.name.startswith(only):
                        continue
                    try:
                        for path in _pictures(tabs[wanted.user], wanted, directory):
                            print(path, flush=True)
                    except (PlaywrightError, AssertionError, TimeoutError) as exc:
                        failed.append(f"{wanted.name}: {exc}")
                for page in tabs.values():
                    close(page.context)
    if failed:
        raise SystemExit("These pages have no picture, or not all four:\n" + "\n".join(failed))


@contextmanager
def _demo(directory: Path) -> Iterator[tuple[ServerProcess, tuple[ConsolePage, ...]]]:
    """The server that a newcomer sees, once it has run for a while, with what scenes.py adds."""
    with ServerProcess(directory / "data", options=["--demo", *SERVER_OPTIONS]) as server, scenes(server):
        end = time.monotonic() + WARM_UP_S
        wait_for("some traffic", lambda: time.monotonic() > end, timeout_s=2 * WARM_UP_S, every_s=1)
        yield server, (*pages_of(*_busiest_channel(server)), *pages_of_scenes(), *pages_of_steps())


def readme_pictures(directory: Path) -> None:
    """Write console-light.png and console-dark.png, the overview of a demo that has run as long as the graphs show."""
    with (
        tempfile.TemporaryDirectory() as data,
        ServerProcess(Path(data) / "data", options=["--demo"]) as server,
        chromium() as browser,
    ):
        page = _tab(browser, server, ADMIN_USER, ADMIN_PASSWORD)
        page.set_viewport_size(README_SIZE)
        page.wait_for_timeout(README_WARM_UP_S * 1000)
        page.reload()
        page.locator(".js-plotly-plot").first.wait_for()
        paths = [_picture(page, theme, directory / f"console-{theme}.png", full_page=False) for theme in THEMES]
    size = sum(path.stat().st_size for path in paths)
    if size > README_BYTES_MAX:
        raise SystemExit(f"README's pictures have {size} bytes, of at most {README_BYTES_MAX}")


def _add_viewer(server: ServerProcess) -> None:
    # A scene that renders a page of its own names the tests' settings here: the product must not follow them.
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    subprocess.run(
        [sys.executable, "manage.py", "user", "add", "vera", "--role", "viewer", "--password-stdin"]
        + [f"--data-path={server.data_path}"],
        cwd=ROOT,
        env=environment,
        input=VIEWER_PASSWORD + "\n",
        text=True,
        check=True,
    )


def _tab(browser: Browser, server: ServerProcess, user: str, password: str) -> Page:
    page = browser.new_context(base_url=server.console_url).new_page()
    page.goto("/login/")
    if user:
        page.get_by_label("Name").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/")
    return page


def _busiest_channel(server: ServerProcess) -> tuple[str, str]:
    """The demo's with most in flight."""
    channels = [
        (channel["in_flight_count"], topic["topic_name"], channel["channel_name"])
        for topic in server.stats()["topics"]
        if not topic["topic_name"].startswith("shop.")
        for channel in topic["channels"]
    ]
    _, topic, channel = max(channels)
    return topic, channel


def _pictures(page: Page, wanted: ConsolePage, directory: Path) -> list[Path]:
    made = []
    for size_name, size in SIZES.items():
        page.set_viewport_size(size)
        if size_name == "wide" or (wanted.steps and not wanted.once):
            page.emulate_media(color_scheme=THEMES[0])
            page.goto(wanted.path)
            _prepare(page, wanted)
        has_dialog = page.evaluate("document.querySelector('dialog[open], :popover-open') !== null")
        if not has_dialog:
            # Only graphs in view are drawn: a window as high as the page brings all of them into view.
            height = page.evaluate("document.scrollingElement.scrollHeight")
            page.set_viewport_size({"width": size["width"], "height": min(height, HEIGHT_MAX)})
            wait_for("the graphs", lambda: page.evaluate(ALL_DRAWN), timeout_s=GRAPHS_TIMEOUT_S)
        for theme in THEMES:
            path = directory / f"{wanted.name}-{size_name}-{theme}.png"
            made.append(_picture(page, theme, path, full_page=not has_dialog))
    return made


def _prepare(page: Page, wanted: ConsolePage) -> None:
    if wanted.act:
        open_act(page, wanted.act)
    for number in range(wanted.opens):
        page.locator("details.unfold > summary").nth(number).click()
    for number in range(wanted.selects):
        page.locator("tbody input[type=checkbox]").nth(number).check()
    page.evaluate("window.scrollTo(0, 0)")  # the header sticks to where the page was scrolled to
    if wanted.submits:
        with page.expect_navigation():
            page.locator("main .act-buttons button[type=submit]").click()
    if wanted.steps:
        wanted.steps(page)


def _picture(page: Page, theme: str, path: Path, *, full_page: bool) -> Path:
    page.emulate_media(color_scheme=theme)
    wait_for("the graphs in their colours", lambda: page.evaluate(ALL_DRESSED), timeout_s=GRAPHS_TIMEOUT_S)
    page.wait_for_timeout(500)  # plotly follows the window a moment late
    page.screenshot(path=path, full_page=full_page)
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.screenshots", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / ".screenshots", help="where they are written")
    parser.add_argument("names", nargs="*", default=[""], help="only pages whose names begin so")
    parser.add_argument("--readme", action="store_true", help="only README's two, in .github")
    return parser.parse_args()


if __name__ == "__main__":
    asked = _arguments()
    if asked.readme:
        readme_pictures(ROOT / ".github")
    else:
        main(asked.directory, tuple(asked.names))
