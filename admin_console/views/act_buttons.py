"""The acts that pages offer, and the template tags that draw their buttons."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
from django.template import Library
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from admin_console.gateway.act_sentences import SENTENCES
from admin_console.gateway.gateway import get_gateway, is_valid_name, why_no_engine
from admin_console.permissions.allowed import CheckedRequest
from admin_console.screens.cells import ActionCell
from admin_console.views.bulk_kinds import KINDS
from admin_console.views.on_nodes import ON_NODES, ON_ONE, Doers, all_in_words, doers_of, reasons_by_node, unable_nodes
from admin_console.views.readers import why_unreadable

register = Library()

_PRIMARY, _DANGER = "button-primary", "button-danger"
_SIGNS = {"Pause": "❚❚ ", "Resume": "▶ "}


@dataclass(frozen=True, slots=True)
class Button:
    """An act that a page offers. label: the button's text. when: the flag of the screen that shows it, "" for
    always; stays: once shown, it stays. at: "head" of the page; else where the template has `act_buttons` with that
    word, or "row": the page's tables draw it."""

    act: str
    label: str
    when: str = ""
    css: str = ""
    stays: bool = False
    at: str = "head"

    @property
    def words(self) -> str:
        """The label within a sentence."""
        return self.label.strip("❚▶ …")


BUTTONS: Mapping[str, tuple[Button, ...]] = {
    "overview": (Button("create_topic", "New topic…"), Button("pause_channel", "Pause…", at="row")),
    "topics": (Button("create_topic", "New topic…", css=_PRIMARY), Button("pause_topic", "Pause…", at="row")),
    "topic": (
        Button("publish", "Publish…"),
        Button("create_channel", "New channel…"),
        Button("retry_topic", "Try again…", "stopped", _PRIMARY),
        Button("pause_topic", "❚❚ Pause…", "running", _PRIMARY),
        Button("unpause_topic", "▶ Resume…", "paused", _PRIMARY),
        Button("archive_on", "Archive…", "unarchived"),
        Button("pause_topic", "❚❚ Pause…", "paused_on_some"),
        Button("pause_topic", "Change end or reason…", "paused_everywhere"),
        Button("set_archive_limits", "Archive limits…", "archived"),
        Button("archive_again", "New table…", "archive_lost"),
        Button("archive_again", "Write missing files…", "archive_incomplete"),
        Button("archive_off", "Stop archiving…", "archived"),
        Button("empty_topic", "Empty…", css=_DANGER),
        Button("delete_topic", "Delete…", css=_DANGER),
    ),
    "channel": (
        Button("rewind_channel", "Rewind…"),
        Button("requeue_channel", "Requeue in flight…"),
        Button("release_deferred", "Release deferred…", "has_deferred", stays=True),
        Button("retry_channel", "Try again…", "stopped", _PRIMARY),
        Button("pause_channel", "❚❚ Pause…", "running", _PRIMARY),
        Button("unpause_channel", "▶ Resume…", "paused", _PRIMARY),
        Button("pause_channel", "❚❚ Pause…", "paused_on_some"),
        Button("pause_channel", "Change end or reason…", "paused_everywhere"),
        Button("set_max_attempts", "Max attempts…"),
        Button("redrive_channel", "Redrive…", "redrivable", _PRIMARY, at="quarantine"),
        Button("cancel_redrive", "Cancel redrive…", "redriving", at="quarantine"),
        Button("empty_channel", "Empty…", css=_DANGER),
        Button("delete_channel", "Delete…", css=_DANGER),
    ),
    "pipeline": (
        Button("plan_replay", "New replay…", "archived"),
        Button("run_replay", "Run…", "runs", at="row"),
        Button("cancel_replay", "Cancel…", "cancels", at="row"),
        Button("stop_job", "Stop…", "stops", at="row"),
        Button("start_job", "Start…", "starts", at="row"),
        Button("archive_on", "Archive…", "archives", at="row"),
        Button("archive_off", "Stop archiving…", "stops_archiving", at="row"),
        Button("archive_again", "New table…", "begins_again", at="row"),
        Button("archive_again", "Write missing files…", "writes_missing", at="row"),
    ),
    "replay": (
        Button("run_replay", "▶ Run…", "awaits_run", _PRIMARY),
        Button("cancel_replay", "Discard…", "discardable"),
        Button("cancel_replay", "Cancel…", "under_way", _DANGER),
    ),
}


@register.simple_tag(takes_context=True)
def act_buttons(context: Mapping[str, Any], at: str = "head") -> SafeString:
    """The buttons of the page's screen at this place."""
    screen = context["screen"]
    names = [context[name] for name in ("topic", "channel", "replay") if context.get(name)]
    return _joined(
        _button(
            context, button.act, button.label, reverse(button.act, args=names), names,
            css=button.css, when=button.when, is_on=bool(screen.flags.get(button.when)), stays=button.stays,
        )
        for button in BUTTONS[screen.page]
        if button.at == at
    )  # fmt: skip


@register.simple_tag(takes_context=True)
def act(
    context: Mapping[str, Any], name: str, label: str, *names: Any, href: str = "", css: str = "", next: str = ""
) -> SafeString:
    """The button of one act. href: its path; "" for that with these names. next: the path that it leads back to."""
    href = href or reverse(name, args=names)
    return _button(context, name, label, f"{href}?{urlencode({'next': next})}" if next else href, names, css=css)


@register.simple_tag(takes_context=True)
def selected_acts(context: Mapping[str, Any], scope: str) -> SafeString:
    """The acts on all selected rows of a list; disabled with the reason for a role that may not, and where the page is
    of a node that can't. scope: topic or channel."""
    request: CheckedRequest = context["request"]
    buttons = []
    words: list[str] = []
    why_not = reasons_by_node(get_gateway()).get(context["node"]) if context.get("node") else None
    for name, kind in KINDS.items():
        if not name.endswith(f"_{scope}"):
            continue
        name = f"bulk_{name}"
        label = f"{_SIGNS.get(kind.verb, '')}{kind.verb}…"
        css = f" {_DANGER}" if kind.is_dangerous else ""
        of_node = why_not(name.removeprefix("bulk_")) if why_not is not None else ""
        if of_node:
            words.append(f"{of_node}.")
        if reason := of_node or request.why_not[name]:
            off = '<span class="button button-small" aria-disabled="true" title="{}">{}</span>'
            buttons.append(format_html(off, reason, label))
        else:
            on = '<button class="button button-small{}" formaction="{}">{}</button>'
            buttons.append(format_html(on, css, reverse(name), label))
    # A title is not shown by touch.
    buttons += [format_html('<span class="muted small">{}</span>', sentence) for sentence in all_in_words(words)]
    return _joined(buttons)


@register.simple_tag(takes_context=True)
def node_acts(context: Mapping[str, Any]) -> SafeString:
    """The acts of a topic's or channel's page on the selected nodes, and why some of these can't do all of them. An act
    that no node can do is left out: the page's own buttons have the reason."""
    request: CheckedRequest = context["request"]
    screen = context["screen"]
    names = [context[name] for name in ("topic", "channel") if context.get(name)]
    buttons: dict[str, SafeString] = {}
    reasons: dict[str, list[str]] = {}
    nodes = {row.key for row in screen.tables["by_node"].rows if not row.is_of_all}
    # Nodes without a row can't be selected: an nsqlookupd may name thousands that never answer.
    why_not = {name: of_node for name, of_node in reasons_by_node(get_gateway()).items() if name in nodes}
    for button in BUTTONS[screen.page]:
        act = button.act
        if act not in ON_NODES - ON_ONE or button.at != "head" or act in buttons:
            continue
        unable = unable_nodes(why_not, act, context["topic"], context.get("channel", ""))
        if unable.keys() >= nodes:
            continue
        is_on = bool(screen.flags.get(button.when))
        for node, reason in unable.items() if is_on or not button.when else ():
            reasons.setdefault(node, []).append(f"{reason}.")
        buttons[act] = _on_selected(button, reverse(act, args=names), request.why_not[act], unable, is_on=is_on)
    sentences = {node: " ".join(all_in_words(of_node)) for node, of_node in reasons.items()}
    words = format_html('<span class="muted small" data-reasons="{}"></span>', orjson.dumps(sentences).decode())
    return _joined([*buttons.values(), words])


def _on_selected(button: Button, href: str, why_not: str, unable: Iterable[str], *, is_on: bool) -> SafeString:
    """A button of the form with the selected nodes; selection.js names them. why_not: the reason of a role. is_on: the
    flag of the screen that shows it."""
    label = button.label.removesuffix("…")
    # Of the nodes that are selected some may be paused: their states are not the page's.
    is_of_state = button.act.startswith(("pause_", "unpause_"))
    when = ""
    if button.when and not is_of_state:
        when = format_html(' data-when="{}"{}', button.when, "" if is_on else SafeString(" hidden"))
    if why_not:
        off = '<span class="button button-small" aria-disabled="true" title="{}"{}>{}…</span>'
        return format_html(off, why_not, when, label)
    css = f" {_DANGER}" if button.css == _DANGER else ""
    on = (
        '<button class="button button-small{}" formaction="{}" data-label="{}" data-unable="{}"{}>{} on these…</button>'
    )
    return format_html(on, css, href, label, " ".join(unable), when, label)


def _button(
    context: Mapping[str, Any], name: str, label: str, href: str, names: Sequence[str], **look: Any
) -> SafeString:
    """names: of the act's topic and channel."""
    request: CheckedRequest = context["request"]
    doers = _doers_of(name, names)
    # A node or a kind of topic that can't do it comes before a role that may not.
    of_nodes = why_no_engine(name) if doers is None else doers.why_not
    reason = context.get("cannot", {}).get(name) or of_nodes or request.why_not[name]
    if doers is not None and doers.where and not reason and label.endswith("…"):
        label = f"{label.removesuffix('…')}{doers.where}…"
    return SafeString(ActionCell(label, "" if reason else href, reason, **look).html)


def _doers_of(name: str, names: Sequence[str]) -> Doers | None:
    """None for an act that this server alone does."""
    if not names or name not in SENTENCES or not is_valid_name(names[0]):
        return None
    return doers_of(get_gateway(), name, names[0], names[1] if len(names) > 1 else "")


@register.simple_tag
def messages_button(href: str, topic: str, channel: str) -> SafeString:
    """The link to a channel's messages; disabled with the reason where no node of it lists them."""
    if reason := why_unreadable(topic, channel):
        return format_html('<span class="button" aria-disabled="true" title="{}">Messages</span>', reason)
    return format_html('<a class="button" href="{}">Messages</a>', href)


def _joined(buttons: Iterable[str]) -> SafeString:
    return format_html_join("\n", "{}", ((button,) for button in buttons))
