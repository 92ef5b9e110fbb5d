"""The header of every page: places, the user, the environment."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from admin_console.accounts.models import CLOCK_DEFAULT, CLOCKS
from admin_console.answers.drafts import typed_by
from admin_console.gateway.act_sentences import SENTENCES
from admin_console.gateway.gateway import ACTS, full_version, has_capability
from admin_console.graphs.plotly_asset import plotly_style_ids, plotly_url
from admin_console.permissions.table import BULK_ACTS
from admin_console.views.cluster_switch import cluster_links, label_of
from admin_console.views.notices import page_notices
from admin_console.vocabulary.current_cluster import current_cluster

_LINKS = (
    ("overview", "Overview", "o"),
    ("topics", "Topics", "t"),
    ("clients", "Clients", "c"),
    ("nodes", "Nodes", "n"),
    ("pipeline", "Pipeline", "p"),
    ("trash", "Trash", "d"),
    ("lookup", "Lookup", "l"),
    ("audit", "Audit", "a"),
)
# Of an engine of this process: its place is left out where the gateway has no such act.
_ACT_OF_PLACE = {"trash": "restore_trash", "tokens": "create_token", "pipeline": "start_job"}
# Pages that lie under a place's tab: an act is on a topic, one of its channels, or the pipeline.
_UNDER = {
    "topic": "topics",
    "channel": "topics",
    **dict.fromkeys(
        ("topic_messages", "channel_messages", "channel_message", "message_search", "message_file"), "topics"
    ),
    **dict.fromkeys(BULK_ACTS, "topics"),
    "replay": "pipeline",
    **{act.name: "topics" if act.name in SENTENCES else "pipeline" for act in ACTS.values() if act.role is not None},
    # The worker does them, and their pages are below those of a topic; nsqlookupds do the last.
    "set_archive_limits": "topics",
    **dict.fromkeys(("tombstone_producer", "register_name", "unregister_topic", "unregister_channel"), "lookup"),
    "set_addresses": "nodes",
    "counter": "nodes",
    "node": "nodes",
    "client": "clients",
    **{name: "trash" for name in ACTS if name.endswith("_trash")},
    **{name: "tokens" for name in ACTS if name.endswith("_token")},
}


@dataclass(frozen=True, slots=True)
class HeaderLink:
    """One of the header's links. key: pressed after "g" to go there (static/keys.js)."""

    label: str
    key: str
    url: str
    is_current: bool


def chrome(request: HttpRequest) -> dict[str, Any]:
    """Context processor: `chrome` with the header's contents, most of it only after the log-in."""
    found = getattr(request, "user", None)
    user = found if found is not None and found.is_authenticated else None
    environment = getattr(settings, "PENSTOCK_ENVIRONMENT", "")
    match = request.resolver_match
    page = match.view_name if match else ""
    here = _UNDER.get(page, page)
    may = getattr(request, "may", None)
    return {
        "chrome": {
            "signed_in": user is not None,
            "version": full_version() if user else "",
            "user_name": user.get_username() if user else "",
            "role": getattr(user, "role", ""),
            "typed_by": typed_by(user.get_username()) if user else "",
            "clock": clock_of(request),
            "clock_url": _url("clock"),
            "environment": environment,
            "title_words": list(filter(None, (current_cluster(), environment))),
            "environment_is_production": environment.lower().startswith("prod"),
            "places": [
                HeaderLink(label, key, url, name == here)
                for name, label, key in _LINKS
                if (url := _url(name)) and (may is None or may[name]) and _is_there(name)
            ],
            "cluster": current_cluster(),
            "cluster_label": label_of(current_cluster()),
            "clusters": cluster_links(match, here, _is_place) if user and match else [],
            "is_place": any(name == page for name, _, _ in _LINKS),
            "home_url": _url("overview") or "/",
            "topics_url": _url("topics"),
            "password_url": _url("password"),
            "tokens_url": _url("tokens") if may is not None and may["tokens"] and _is_there("tokens") else "",
            "logout_url": _url("logout"),
            "query": request.GET.get("q", "")[:130] if here == "topics" else "",
            "notices": page_notices() if user else [],
            "plotly_url": plotly_url(),
            "plotly_styles": plotly_style_ids(),
        }
    }


def clock_of(request: HttpRequest) -> str:
    """ "local" or "utc": the link's `?tz=`, which holds for one page, else the user's choice."""
    wanted = request.GET.get("tz", "")
    return wanted if wanted in dict(CLOCKS) else getattr(getattr(request, "user", None), "clock", CLOCK_DEFAULT)


def _is_there(place: str) -> bool:
    return place not in _ACT_OF_PLACE or has_capability(_ACT_OF_PLACE[place])


def _is_place(name: str) -> bool:
    """Whether the cluster that the running code works for has it."""
    return any(name == place for place, _, _ in _LINKS) and _is_there(name)


def _url(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""
