"""The channel that a request's page of messages is about: at this server, or at the node that it names (`node`)."""

from django.http import HttpRequest

from admin_console.gateway.gateway import ReadRefusedError, get_gateway
from admin_console.messages.channel_snapshot import ChannelSnapshot, channel_snapshot
from admin_console.views.on_nodes import NODE, readers_of


def channel_of(request: HttpRequest, topic: str, channel: str) -> ChannelSnapshot | None:
    """None where there is no such channel. Without a name it is this server's, else that of the first node that lists
    messages. Raises ReadRefusedError with the reason where no node of it does."""
    gateway = get_gateway()
    name = (request.POST.get(NODE) or request.GET.get(NODE, ""))[:300]
    has_engine = "list_messages" in gateway.capabilities
    if has_engine and name in ("", gateway.node().http_address):
        found = channel_snapshot(gateway, topic, channel)
        if found is not None or name:
            return found
    readers = [one for one in readers_of(topic, channel) if name in ("", one.name)]
    able = [one for one in readers if not one.why_not]
    if not able:
        if readers:
            raise ReadRefusedError(f"Nothing was read of {topic}/{channel}: {readers[0].why_not}.")
        # Without an engine the read of its messages has the sentence.
        return None if has_engine or name else channel_snapshot(gateway, topic, channel)
    first = able[0]
    stats = next(one for one in first.topic.channels if one.channel_name == channel)
    return ChannelSnapshot(topic, channel, first.topic, stats, first.messages.capabilities, first.messages, first.name)
