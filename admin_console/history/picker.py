"""The range picker above a page's graphs: links, a form for a span, and the chosen range."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import urlencode

from admin_console.history.ranges import PRESETS, Range, RangeError, live_range, range_of, url_time, worded
from admin_console.screens.build import Request
from admin_console.screens.links import url_of

_LABELS = {"15m": "15 m", "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
_TITLES = {
    "15m": "The last 15 minutes, live, a point a second",
    "1h": "The last hour",
    "6h": "The last 6 hours",
    "24h": "The last 24 hours",
    "7d": "The last 7 days",
    "30d": "The last 30 days",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One preset, as a link that works without scripts."""

    preset: str
    label: str
    title: str
    href: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """One node, or all of them (node ""), as a link."""

    node: str
    label: str
    href: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Picker:
    """The content of the picker.

    range: the drawn range. If the URL's range is invalid, it is the live one, and `complaint` has the reason.
    first, end: of a span, as the form's fields have them (UTC). table_href: the range as a table, for browsers
    without scripts. hidden_fields: the fields of the page's list and the node in the URL, which stay there. nodes: to
    choose from; none where this server stands alone.
    """

    range: Range
    choices: tuple[Choice, ...]
    is_span: bool
    first: str
    end: str
    words: str
    api_url: str
    query: str
    table_href: str
    hidden_fields: tuple[tuple[str, str], ...]
    wants_table: bool
    complaint: str
    nodes: tuple[NodeChoice, ...] = ()


def picker_of(
    page_request: Request, query: Mapping[str, str], now_s: int, nodes: Mapping[str, str] = MappingProxyType({})
) -> Picker:
    """The picker of a page for the query of its URL. nodes: label by name in the samples; none without a cluster."""
    complaint = ""
    try:
        chosen = range_of(query, now_s)
    except RangeError as exc:
        chosen, complaint = live_range(now_s), f"The range is not valid: {exc} The last 15 minutes are shown."
    is_span = not chosen.preset
    range_fields = {"from": url_time(chosen.first_s)} | ({} if chosen.grows else {"to": url_time(chosen.end_s)})
    range_fields = range_fields if is_span else {"range": chosen.preset}
    names = [name for name in (page_request.topic, page_request.channel) if name]
    list_fields = page_request.list_query.fields
    node_field = {"node": chosen.node} if chosen.node else {}
    hidden_fields = list_fields | node_field
    if chosen.node:
        nodes = {**nodes, chosen.node: nodes.get(chosen.node, chosen.node)}  # it may be gone
    return Picker(
        range=chosen,
        choices=tuple(
            Choice(
                name,
                _LABELS[name],
                _TITLES[name],
                "?" + urlencode({**hidden_fields, "range": name}),
                chosen.preset == name and not complaint,
            )
            for name in PRESETS
        ),
        is_span=is_span,
        first=_field(chosen.first_s),
        end=_field(chosen.end_s),
        words=f"{worded(chosen.first_s)} to {worded(chosen.end_s)}",
        api_url=url_of(f"{page_request.page}_history", *names),
        query=urlencode(range_fields | node_field),
        table_href="?" + urlencode(hidden_fields | range_fields | {"as": "table"}),
        hidden_fields=tuple(hidden_fields.items()),
        wants_table=query.get("as") == "table" and not complaint,
        complaint=complaint,
        nodes=tuple(
            NodeChoice(
                node,
                label,
                "?" + urlencode(list_fields | range_fields | ({"node": node} if node else {})),
                node == chosen.node,
            )
            for node, label in ({"": "All nodes", **nodes}.items() if nodes else ())
        ),
    )


def _field(second: int) -> str:
    """As a field for date and time takes it: whole minutes, no zone."""
    return url_time(second // 60 * 60).removesuffix("Z")
