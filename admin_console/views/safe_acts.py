"""Acts that lose nothing: create, publish, retry, release deferred; pausing is in `admin_console/views/pausing.py`."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_console.gateway.gateway import (
    KEY_BYTES_MAX,
    NAME_LENGTH_MAX,
    format_duration,
    is_valid_name,
    parse_duration_ms,
    why_no_engine,
    why_not,
)
from admin_console.gateway.sentences import counted
from admin_console.views.act_page import CHANNEL, TOPIC, ActPage
from admin_console.views.audited_act import ComplaintError
from admin_console.views.question import Choice, Field, Question

NAME_HELP = (
    f"1 to {NAME_LENGTH_MAX} letters, digits, dots, underscores and hyphens. A name that ends in #ephemeral: deleted "
    "with its last consumer."
)

_STORAGE_KINDS = {
    "log": "log: on disk once for all channels, survives a killed process",
    "diskqueue": "diskqueue: nsqd's own, in memory first, a copy for each channel",
}


def checked_name(text: str, kind: str) -> str:
    if not is_valid_name(text):
        raise ComplaintError(
            f"{text[:80]!r} is not a {kind} name: 1 to {NAME_LENGTH_MAX} of letters, digits and . _ -, "
            "with #ephemeral behind them where it is wanted."
        )
    return text


class CreateTopic(ActPage):
    routes = {"create_topic": "topics/~create/"}

    def get(self, request: HttpRequest, **names: str) -> HttpResponse:
        # Without an engine a topic is made at nsqlookupds and nodes, by the form that names them.
        if why_no_engine("publish"):
            return HttpResponseRedirect(reverse("register_name"))
        return super().get(request, **names)

    def question(self) -> Question:
        wanted = self.request.POST.get("topic", "") or self.request.GET.get("topic", "")
        given = self.request.POST.get("storage", "") or self.request.GET.get("storage", "")
        chosen = given or self.gateway.node().storage
        return Question(
            title="Create a topic",
            button="Create topic",
            post_url=self.url,
            cancel_url=reverse("topics"),
            consequences=[
                "The first message published to a topic also creates it.",
                *(["Lookup creates one at nsqlookupds, too."] if self.nodes and self.nodes.has_lookupds else []),
            ],
            fields=[
                Field("topic", "Name", value=wanted, help=NAME_HELP, is_required=True, length_max=NAME_LENGTH_MAX),
                Field(
                    "storage",
                    "Storage",
                    kind="radio",
                    choices=tuple(Choice(kind, label, kind == chosen) for kind, label in _STORAGE_KINDS.items()),
                    help="A topic's storage can't be changed later. A name that ends in #ephemeral: in memory only.",
                ),
            ],
        )

    def after_url(self) -> str:
        # Of other nodes the page has no figures yet.
        return self.page_url if self.nodes is None or self.nodes.has_own else reverse("topics")

    def again_url(self) -> str:
        return f"{self.url}?{urlencode({'topic': self.topic, 'storage': self.request.POST.get('storage', '')})}"

    def details(self) -> dict[str, Any]:
        self.topic = checked_name(self.request.POST.get("topic", "").strip(), "topic")
        storage = self.request.POST.get("storage", "")
        if storage and storage not in _STORAGE_KINDS:
            raise ComplaintError(f"There is no storage {storage[:40]!r}: it can be {' or '.join(_STORAGE_KINDS)}.")
        return {"storage": storage}


class CreateChannel(ActPage):
    routes = {"create_channel": f"{TOPIC}/~create-channel/"}

    def question(self) -> Question:
        topic = self.topic_stats()
        wanted = self.request.POST.get("channel", "") or self.request.GET.get("channel", "")
        takes_over = (
            f"It is the first channel, and takes over {counted(topic.depth, 'message')} from the topic."
            if not topic.channels and topic.depth
            else "It gets a copy of every message published from now on."
        )
        return Question(
            title=f"Create a channel of {self.topic}",
            button="Create channel",
            post_url=self.url,
            cancel_url=reverse("topic", args=(self.topic,)),
            consequences=[takes_over, "It keeps each message until a consumer finishes it."],
            fields=[
                Field("channel", "Name", value=wanted, help=NAME_HELP, is_required=True, length_max=NAME_LENGTH_MAX)
            ],
        )

    def details(self) -> dict[str, Any]:
        self.channel = checked_name(self.request.POST.get("channel", "").strip(), "channel")
        return {}


class Publish(ActPage):
    routes = {"publish": f"{TOPIC}/~publish/"}

    def question(self) -> Question:
        topic = self.topic_stats()
        node = self.gateway.node()
        if topic.channels:
            reach = f"It goes to {counted(len(topic.channels), 'channel')}."
        else:
            reach = "The topic has no channel yet: the message stays at the topic until there is one."
        return Question(
            title=f"Publish a message to {self.topic}",
            button=f"Publish to {self.topic}",
            post_url=self.url,
            cancel_url=self.page_url,
            consequences=[reach, *(["The topic is paused: the message stays there."] if topic.paused else [])],
            fields=[
                Field(
                    "body",
                    "Body",
                    kind="area",
                    value=self.request.POST.get("body", ""),
                    help=f"Sent as UTF-8, with LF as line ends; 1 to {node.max_msg_size:,} bytes.",
                    is_required=True,
                ),
                Field(
                    "defer",
                    "Delay",
                    value=self.request.POST.get("defer", ""),
                    help=f"Optional, such as 5s or 1m30s; at most {format_duration(node.max_defer_ms)}.",
                    length_max=20,
                ),
                *([] if why_not("publish_keyed", topic.storage, topic.topic_name) else [self._key_field()]),
            ],
        )

    def _key_field(self) -> Field:
        return Field(
            "key",
            "Key",
            value=self.request.POST.get("key", ""),
            help=f"Optional, 1 to {KEY_BYTES_MAX} bytes: to find the message by. Not with a delay.",
            length_max=KEY_BYTES_MAX,
        )

    def details(self) -> dict[str, Any]:
        node = self.gateway.node()
        # A browser sends every line end of a text field as CR LF; the user typed one line end.
        body = self.request.POST.get("body", "").replace("\r\n", "\n").encode()
        defer_text = self.request.POST.get("defer", "").strip()
        complaints = []
        if not body:
            complaints.append("The body is empty: a message has at least 1 byte.")
        if len(body) > node.max_msg_size:
            complaints.append(f"The body has {len(body):,} bytes; the most is {node.max_msg_size:,}.")
        defer_ms = 0
        if defer_text:
            try:
                defer_ms = parse_duration_ms(defer_text)
            except ValueError as exc:
                complaints.append(f"Delay: {exc}.")
        if defer_ms > node.max_defer_ms:
            complaints.append(f"Delay: {defer_text} is more than {format_duration(node.max_defer_ms)}.")
        key = self.request.POST.get("key", "").strip().encode()
        if len(key) > KEY_BYTES_MAX:
            complaints.append(f"The key has {len(key)} bytes; the most is {KEY_BYTES_MAX}.")
        if key and defer_ms:
            complaints.append("A key and a delay are both given: a deferred message has no key.")
        if complaints:
            raise ComplaintError(*complaints)
        return {"bodies": [body], **({"key": key} if key else {"defer_ms": defer_ms})}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return counted(len(details["bodies"][0]), "byte")


class Retry(ActPage):
    routes = {"retry_topic": f"{TOPIC}/~retry/", "retry_channel": f"{CHANNEL}/~retry/"}

    def question(self) -> Question:
        one = self.channel_stats() if self.channel else self.topic_stats()
        reasons = [f"It is fenced: {one.fenced}."] if one.fenced else []
        reasons += [f"The disk refuses something of it: {one.unreadable}."] if one.unreadable else []
        if self.channel:
            effect = (
                "Unfinished messages are delivered again, those in flight included: consumers may receive them twice."
            )
        else:
            effect = "It is accepting messages again and passes its messages on to its channels."
        return self.pose(
            f"Let {self.name} try again",
            [
                *(reasons or ["Nothing stops it now: trying again changes nothing."]),
                *([effect] if one.fenced else []),
                *(["If it fails again, it stops again with the new reason. Nothing is lost."] if reasons else []),
            ],
        )


class ReleaseDeferred(ActPage):
    routes = {"release_deferred": f"{CHANNEL}/~release-deferred/"}

    def question(self) -> Question:
        channel = self.channel_stats()
        return self.pose(
            f"Release deferred messages of {self.name}",
            [f"{counted(channel.deferred_count, 'deferred message')} will be due now."],
        )
