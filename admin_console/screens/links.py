"""Paths of pages and acts, and the one act that a row offers."""

from functools import lru_cache
from urllib.parse import quote, urlencode

from django.conf import settings
from django.urls import get_script_prefix, reverse, set_script_prefix

from admin_console.permissions.table import ACTS, BULK_ACTS
from admin_console.screens.cells import ActionCell, LinkCell, NameCell
from admin_console.vocabulary.current_cluster import current_cluster, path_of
from admin_console.vocabulary.roles import Role

BULK_ROLE = min(BULK_ACTS.values(), key=list(Role).index)  # the least that may act on a selection


def url_of(name: str, *args: str) -> str:
    """The path of a page or act of the current cluster, the console's sub-path before it."""
    return _url_of(f"{settings.FORCE_SCRIPT_NAME or ''}{path_of(current_cluster())}/", name, *args)


@lru_cache(maxsize=8192)
def _url_of(prefix: str, name: str, *args: str) -> str:
    # Live updates are built in a context that no request has begun, where Django has no sub-path.
    before = get_script_prefix()
    set_script_prefix(prefix)
    try:
        return reverse(name, args=args)
    finally:
        set_script_prefix(before)


def topic_cell(topic: str) -> NameCell:
    return NameCell(topic, url_of("topic", topic))


def channel_cell(topic: str, channel: str, *, with_topic: bool = True) -> NameCell:
    return NameCell(channel, url_of("channel", topic, channel), topic if with_topic else "")


def node_url(name: str) -> str:
    """A node's page."""
    return url_of("node", name)


def client_url(node: str, key: str) -> str:
    """A connection's page."""
    # Not `url_of` by itself: clients would fill its cache.
    return f"{url_of('clients')}{quote(node)}/{quote(key)}/"


def consumer_url(topic: str, channel: str, client_key: int) -> str:
    """A consumer's row in its channel's page."""
    return f"{url_of('channel', topic, channel)}#{consumer_anchor(client_key)}"


def consumer_anchor(client_key: int) -> str:
    return f"consumer-{client_key}"


def message_url(topic: str, channel: str, message_id: str) -> str:
    """The page of one message."""
    # Not `url_of` by itself: ids would fill its cache.
    return f"{url_of('channel_messages', topic, channel)}{message_id}/"


def message_cell(topic: str, channel: str, message_id: str) -> LinkCell:
    """A link to a message."""
    return LinkCell(f"Message {message_id}", message_url(topic, channel, message_id))


def act_cell(label: str, act: str, role: Role, *args: str, query: dict[str, str] | None = None) -> ActionCell:
    """A link to an act's confirmation; disabled, with the reason, for a role that may not."""
    least = ACTS[act]
    if not role.includes(least):
        return ActionCell(label, "", f"Needs the role {least.value}; yours is {role.value}.")
    path = url_of(act, *args)
    return ActionCell(label, f"{path}?{urlencode(query)}" if query else path)


def selection_of(table: str, role: Role) -> str:
    """The id of the form for the selected rows of a list; "" for a role that may do nothing with them."""
    return f"select-{table}" if role.includes(BULK_ROLE) else ""


def pause_cell(topic: str, channel: str, role: Role, *, is_paused: bool, node: str = "") -> ActionCell:
    """Resume if it is paused, else Pause. An empty `channel` means the topic. node: the one that does it; "" for all
    that have it."""
    scope, args = ("channel", (topic, channel)) if channel else ("topic", (topic,))
    query = {"node": node} if node else None
    return (
        act_cell("Resume…", f"unpause_{scope}", role, *args, query=query)
        if is_paused
        else act_cell("Pause…", f"pause_{scope}", role, *args, query=query)
    )
