"""Every path of the console. Each name has its rule in permissions/table.py.

A path's own words begin with `~`, which no topic or channel name may: `/topics/~create/` is never a topic's page.
"""

from collections.abc import Iterator
from types import ModuleType

from django.urls import URLPattern, URLResolver, include, path, register_converter

from admin_console.cluster.merging.node_clients import KEY
from admin_console.message_views import acts, files, lists, search, topic_messages
from admin_console.nsqadmin.config import configuration
from admin_console.views import (
    accounts,
    archive_limits,
    audit,
    bulk_acts,
    bulk_kinds,
    cursors,
    lookup,
    lookup_acts,
    nodes,
    pages,
    pausing,
    pipeline,
    quarantine,
    rewind,
    risky_acts,
    safe_acts,
    tokens,
    trash,
)
from admin_console.views.act_page import CHANNEL, TOPIC, ActPage


class NameConverter:
    """A topic or channel name in a path; `#` of `#ephemeral` travels as %23."""

    regex = r"(?!\.{1,2}(?:/|$))[.a-zA-Z0-9_-]{1,64}(?:#ephemeral)?"

    def to_python(self, value: str) -> str:
        if len(value) > 64:
            raise ValueError(f"{value!r} has more than 64 characters")
        return value

    def to_url(self, value: str) -> str:
        return value


class MessageConverter:
    """A message's id of 16 hex digits, or its offset."""

    regex = r"[0-9a-f]{16}|[0-9]{1,18}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(NameConverter, "name")


class NodeConverter:
    """HOST:PORT of a node; none begins with the `~` of our own words."""

    regex = r"[A-Za-z0-9_.\[:-][A-Za-z0-9_.:\[\]-]{0,299}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class ClientConverter(NodeConverter):
    """A connection among those of a node: its address, or a number."""

    regex = KEY


register_converter(MessageConverter, "message")
register_converter(NodeConverter, "node")
register_converter(ClientConverter, "client")

handler400 = "admin_console.answers.refusal.not_readable"
handler404 = "admin_console.nsqadmin.unknown.not_found"
handler500 = "admin_console.answers.failed.server_error"


def _acts(*modules: ModuleType) -> Iterator[URLPattern]:
    """The acts whose pages are in these modules."""
    for module in modules:
        for page in vars(module).values():
            if isinstance(page, type) and issubclass(page, ActPage) and page.__module__ == module.__name__:
                for action, route in vars(page).get("routes", {}).items():
                    yield path(route, page.as_view(action=action), name=action)


urlpatterns: list[URLPattern | URLResolver] = [
    # Accounts.
    path("login/", accounts.log_in, name="login"),
    path("logout/", accounts.log_out, name="logout"),
    path("password/", accounts.change_password, name="password"),
    path("clock/", accounts.choose_clock, name="clock"),
    # Pages that read.
    path("", pages.overview, name="overview"),
    path("topics/", pages.topics, name="topics"),
    path(f"{TOPIC}/", pages.topic, name="topic"),
    path(f"{CHANNEL}/", pages.channel, name="channel"),
    path("pipeline/", pages.pipeline, name="pipeline"),
    path("pipeline/replays/<slug:replay>/", pages.replay, name="replay"),
    path("trash/", trash.trash_page, name="trash"),
    path("lookup/", lookup.lookup_page, name="lookup"),
    path("nodes/", pages.nodes, name="nodes"),
    path("counter/", pages.counter, name="counter"),
    path("nodes/<node:node>/", pages.node, name="node"),
    path("clients/", pages.clients, name="clients"),
    path("clients/<node:node>/<client:client>/", pages.client, name="client"),
    path("audit/", audit.audit_list, name="audit"),
    path("tokens/", tokens.tokens_page, name="tokens"),
    path(f"{TOPIC}/~messages/", topic_messages.topic_messages, name="topic_messages"),
    # The messages of a channel.
    path(f"{CHANNEL}/~messages/", search.messages_or_search, name="channel_messages"),
    path(f"{CHANNEL}/~messages/~file/", files.message_file, name="message_file"),
    path(f"{CHANNEL}/~messages/~search/<slug:search>/", search.message_search, name="message_search"),
    path(f"{CHANNEL}/~messages/<message:message>/", lists.channel_message, name="channel_message"),
    path(f"{CHANNEL}/~messages/<message:message>/body", files.message_body, name="message_body"),
    *_acts(acts, archive_limits, cursors, lookup_acts, nodes, pausing, pipeline, quarantine, rewind),
    *_acts(risky_acts, safe_acts, tokens, trash),
    # The same acts on several that are selected in a list.
    *(
        path(
            f"topics/~selected/{action.replace('_', '-')}/",
            bulk_acts.BulkAct.as_view(action=action),
            name=f"bulk_{action}",
        )
        for action in bulk_kinds.KINDS
    ),
    path("api/", include("admin_console.api.urls")),
    path("api/", include("admin_console.nsqadmin.urls")),
    path("config/<slug:option>", configuration, name="nsqadmin_config"),
]
