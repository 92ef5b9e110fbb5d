"""The pipeline's pages as a test reads them."""

from pathlib import Path

from django.test import Client

from admin_console.gateway.pipeline import (
    Pipeline,
    set_pipeline,
)
from queue_engine.lake.worker.process import WorkerProcess
from tests.support.pages.console import words

REPLAY = "20260301-143000-7f3a"


def switch_on(lake_path: Path) -> None:
    """As under serve, though nothing is ever started."""
    process = WorkerProcess(lake_path.parent, "http://127.0.0.1:1", token="", find_work=lambda: "")
    set_pipeline(Pipeline(lake_path, process))


def shown(browser: Client, path: str = "/pipeline/", status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.content.decode()
    return answer.content.decode()


def row(html: str, table: str, key: str) -> str:
    """The words of one row."""
    text = html.split(f'data-table="{table}"')[1].split("</table>")[0]
    return words(text.split(f'data-key="{key}"')[1].split("</tr>")[0].partition(">")[2])
