"""Every URL of the console, with the names of things that a test makes for it."""

from collections.abc import Iterator

from django.urls import URLPattern, URLResolver, get_resolver, reverse

TOPIC, CHANNEL, CURSOR, JOB, REPLAY = "orders", "billing", "archive", "archive", "20260301-143000-7f3a"
MESSAGE = "0"  # its offset
TRASH = 999_999  # an id that no entry has
SEARCH = "0123456789abcdef"  # forgotten
TOKEN = "0123456789ab"  # an id that no token has
NODE = "127.0.0.1:1"  # that no nsqlookupd knows
CLIENT = "127.0.0.1:9"  # that is not connected


# Acts on what is not there, and its pages: they are answered 404.
AT_LOOKUPDS = ("tombstone_producer", "unregister_topic", "unregister_channel")
GONE = ("restore_trash", "delete_trash", "revoke_token", *AT_LOOKUPDS, "node", "client", "nsqadmin_node")
WITHOUT_PARAMETERS = ("nsqadmin_graphite",)  # answered 400


def all_urls() -> list[tuple[str, str]]:
    """Name and path of every URL, its names filled in."""
    values = {
        "topic": TOPIC,
        "channel": CHANNEL,
        "cursor": CURSOR,
        "job": JOB,
        "replay": REPLAY,
        "message": MESSAGE,
        "trash": TRASH,
        "search": SEARCH,
        "token": TOKEN,
        "node": NODE,
        "client": CLIENT,
        "option": "log_level",
    }
    return [
        (name, reverse(name, kwargs={key: values[key] for key in pattern.pattern.converters}))
        for name, pattern in _patterns(get_resolver().url_patterns)
    ]


def _patterns(
    items: list[URLPattern | URLResolver], namespaces: tuple[str, ...] = ()
) -> Iterator[tuple[str, URLPattern]]:
    """Every URL's full name and pattern."""
    for item in items:
        if isinstance(item, URLResolver):
            inner = (*namespaces, item.namespace) if item.namespace else namespaces
            yield from _patterns(item.url_patterns, inner)
        else:
            yield ":".join((*namespaces, item.name or f"unnamed {item.pattern}")), item
