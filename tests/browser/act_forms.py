"""Where each act is asked about, as a page and as a dialog, for pictures of all of them."""

from collections.abc import Mapping
from functools import partial

from playwright.sync_api import Page

from tests.browser.pages import ConsolePage

_TOPIC, _CHANNEL = "/topics/shop.payments/", "/topics/shop.payments/ledger/"
_IMPORTS = "/topics/shop.imports/rows/"
_REPORTS = "/topics/shop.reports/nightly/"

# Act → the path of its question on the server of scenes.py.
OF_SCENES: Mapping[str, str] = {
    "create_topic": "/topics/~create/",
    "create_channel": f"{_TOPIC}~create-channel/",
    "publish": f"{_TOPIC}~publish/",
    "pause_topic": f"{_TOPIC}~pause/",
    "unpause_topic": f"{_TOPIC}~unpause/",
    "retry_topic": f"{_TOPIC}~retry/",
    "archive_on": f"{_TOPIC}~archive-on/",
    "empty_topic": f"{_TOPIC}~empty/",
    "delete_topic": f"{_TOPIC}~delete/",
    "pause_channel": f"{_CHANNEL}~pause/",
    "unpause_channel": "/topics/shop.orders/billing/~unpause/",
    "retry_channel": f"{_CHANNEL}~retry/",
    "set_max_attempts": f"{_IMPORTS}~max-attempts/",
    "redrive_channel": f"{_IMPORTS}~redrive/",
    "cancel_redrive": f"{_IMPORTS}~cancel-redrive/",
    "empty_channel": f"{_CHANNEL}~empty/",
    "delete_channel": f"{_CHANNEL}~delete/",
    "requeue_channel": f"{_CHANNEL}~requeue/",
    "release_deferred": f"{_REPORTS}~release-deferred/",
    "rewind_channel": f"{_CHANNEL}~rewind/",
    "finish_messages": "/topics/shop.orders/search/~messages/~finish/?id=0",
    "requeue_messages": "/topics/shop.stock/counter/~messages/~requeue/?id=0",
    "release_messages": f"{_REPORTS}~messages/~release/?id=0",
    "quarantine_messages": "/topics/shop.orders/search/~messages/~quarantine/?id=0",
    "redrive_messages": f"{_IMPORTS}~messages/~redrive/?id=0",
    "publish_again": "/topics/shop.orders/search/~messages/~publish-again/?id=0",
    "stop_job": "/pipeline/jobs/archive/~stop/",
}
# Act → the same on the server of program_scenes.py; {…}: what it knows once it runs.
OF_PROGRAMS: Mapping[str, str] = {
    "start_job": "/pipeline/jobs/archive/~start/",
    "plan_replay": "/pipeline/~replay/",
    "run_replay": "/pipeline/replays/{replay}/~run/",
    "cancel_replay": "/pipeline/replays/{replay}/~cancel/",
    "archive_off": "/topics/clicks/~archive-off/",
    "archive_again": "/topics/clicks/~archive-again/",
    "set_archive_limits": "/topics/clicks/~archive-limits/",
    "delete_cursor": "/topics/clicks/~cursors/archive/~delete/",
    "restore_trash": "/topics/gone/~trash/{trash}/~restore/",
    "delete_trash": "/topics/gone/~trash/{trash}/~delete/",
    "tombstone_producer": "/lookup/clicks/{node}/~tombstone/",
    "register_name": "/lookup/~create/",
    "unregister_topic": "/lookup/lonely/~unregister/",
    "unregister_channel": "/lookup/clicks/lonely/~unregister/",
    "create_token": "/tokens/~create/",
    "set_addresses": "/nodes/~addresses/",
    "revoke_token": "/tokens/{token}/~revoke/",
}


def forms(paths: Mapping[str, str], **known: str) -> tuple[ConsolePage, ...]:
    """Each act's page, and its dialog over the least page that there is."""
    made = []
    for act, path in paths.items():
        url, name = path.format(**known), act.replace("_", "-")
        made += [
            ConsolePage(f"form-{name}", url),
            ConsolePage(f"act-{name}", "/password/", steps=partial(open_dialog, url=url)),
        ]
    return tuple(made)


def open_dialog(page: Page, url: str) -> None:
    """As a click on a link to it does, wherever that stands."""
    page.evaluate(
        """(url) => {
          const link = document.createElement("a");
          Object.assign(link, {href: url, textContent: "Open"}).dataset.dialog = "";
          document.querySelector("main").append(link);
          link.click();
          link.remove();
        }""",
        url,
    )
    page.get_by_role("dialog").wait_for()
