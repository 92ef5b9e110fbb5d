"""Every page of the console, for tests and screenshots that look at all of them."""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """name: of its screenshot; act: the button whose dialog is opened; user: "" for nobody.

    opens, selects: how many bodies are unfolded, how many rows are selected. submits: the page's question is answered.
    steps: what else is done on the page before its picture is taken, for each width again unless `once`.
    """

    name: str
    path: str
    act: str = ""
    user: str = "admin"
    opens: int = 0
    selects: int = 0
    submits: bool = False
    steps: Callable[[Page], None] | None = None
    once: bool = False


def pages_of(topic: str, channel: str) -> tuple[ConsolePage, ...]:
    """All pages, those of a topic and a channel with the ones named."""
    topic_path = f"/topics/{topic}/"
    channel_path = f"{topic_path}{channel}/"
    return (
        ConsolePage("log-in", "/login/", user=""),
        ConsolePage("overview", "/"),
        ConsolePage("topics", "/topics/"),
        ConsolePage("topics-none-found", "/topics/?q=nothing-is-called-so"),
        ConsolePage("topic", topic_path),
        ConsolePage("channel", channel_path),
        ConsolePage("channel-24h", f"{channel_path}?range=24h"),
        ConsolePage("channel-table", f"{channel_path}?range=6h&as=table"),
        ConsolePage("messages", f"{topic_path}~messages/"),
        ConsolePage("channel-messages", f"{channel_path}~messages/?state=in_flight"),
        ConsolePage("message", f"{channel_path}~messages/0/"),
        ConsolePage("channel-viewer", channel_path, user="vera"),
        ConsolePage("gone", f"{topic_path}nothing-is-called-so/"),
        ConsolePage("trash", "/trash/"),
        ConsolePage("lookup", "/lookup/"),
        ConsolePage("pipeline", "/pipeline/"),
        ConsolePage("confirm-replay", "/pipeline/~replay/"),
        ConsolePage("confirm-stop-job", "/pipeline/jobs/archive/~stop/"),
        ConsolePage("audit", "/audit/"),
        ConsolePage("tokens", "/tokens/"),
        ConsolePage("nodes", "/nodes/"),
        ConsolePage("clients", "/clients/"),
        ConsolePage("counter", "/counter/"),
        ConsolePage("password", "/password/"),
        ConsolePage("not-allowed", "/audit/", user="vera"),
        ConsolePage("confirm-publish", f"{topic_path}~publish/"),
        ConsolePage("confirm-empty-topic", f"{topic_path}~empty/"),
        ConsolePage("confirm-delete-channel", f"{channel_path}~delete/"),
        ConsolePage("confirm-rewind", f"{channel_path}~rewind/"),
        ConsolePage("dialog-requeue", channel_path, act="Requeue in flight…"),
        ConsolePage("dialog-create-topic", "/topics/", act="New topic…"),
    )
