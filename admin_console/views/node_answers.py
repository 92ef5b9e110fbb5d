"""The answer to an act that several nodes did: a row for each, and a button that tries the rest again."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from admin_console.answers.refusal import wants_fragment
from admin_console.gateway.fan_out import NodeResult
from admin_console.gateway.gateway import DONE, UNKNOWN
from admin_console.gateway.sentences import counted

_MARKS = {DONE: "✓", UNKNOWN: "?"}


def node_row(one: NodeResult) -> dict[str, Any]:
    """For scripts."""
    return {
        "node": one.node,
        "ok": one.result.verdict == DONE,
        "message": one.result.message,
        "code": one.result.code,
        "counts": dict(one.result.counts),
    }


def node_results(
    request: HttpRequest,
    act: str,
    results: Sequence[NodeResult],
    *,
    again_url: str,
    close_url: str,
    undo_url: str,
    undo_nodes: Sequence[str],
) -> HttpResponse:
    """act: in words, `Pause channel orders/billing`. again_url: of its question. undo_url: of that of the undo, "" for
    none; undo_nodes: those that it is about, empty for this server. The nodes of both are fields: they may be too many
    for a link."""
    left = [one.node for one in results if one.result.verdict != DONE]
    # Those that need a look come first.
    rows = sorted(results, key=lambda one: one.result.verdict == DONE)
    context = {
        "title": f"{act}: done on {f'{len(results) - len(left)} of ' if left else ''}{counted(len(results), 'node')}",
        "rows": [
            (one.node, one.result.verdict == DONE, _MARKS.get(one.result.verdict, "✕"), one.result.message)
            for one in rows
        ],
        "close_url": close_url,
        "again_url": again_url,
        "left": "\n".join(left),
        "again": "Try the rest again…" if len(left) < len(results) else "Try again…",
        "undo_url": undo_url,
        # A pause is undone on all of them; the trash is this server's.
        "undo_nodes": "\n".join(undo_nodes),
        "undo": "Undo…" if undo_nodes else "Undo on this server…",
    }
    template = "acts/_node_results.html" if wants_fragment(request) else "acts/node_results.html"
    return render(request, template, context)
