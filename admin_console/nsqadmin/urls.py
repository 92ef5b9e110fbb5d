"""The paths of nsqadmin's interface, without a slash at their end, as its programs send them."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import path

from admin_console.nsqadmin import acts, reads
from admin_console.nsqadmin.answers import complaint

View = Callable[..., HttpResponse]


def _by_method(**views: View) -> View:
    """One view of several, by the method; OPTIONS is answered, others are refused with the list."""
    allowed = ", ".join(sorted([*views, "OPTIONS"]))

    def view(request: HttpRequest, **names: str) -> HttpResponse:
        method = "GET" if request.method == "HEAD" else str(request.method)
        if method in views:
            return views[method](request, **names)
        if method == "OPTIONS":
            return HttpResponse(headers={"Allow": allowed})
        refused = complaint("METHOD_NOT_ALLOWED", status=405)
        refused["Allow"] = allowed
        return refused

    return view


urlpatterns = [
    path("topics", _by_method(GET=reads.topics, POST=acts.create), name="nsqadmin_topics"),
    path(
        "topics/<name:topic>", _by_method(GET=reads.topic, POST=acts.act_on, DELETE=acts.delete), name="nsqadmin_topic"
    ),
    path(
        "topics/<name:topic>/<name:channel>",
        _by_method(GET=reads.channel, POST=acts.act_on, DELETE=acts.delete),
        name="nsqadmin_channel",
    ),
    path("nodes", _by_method(GET=reads.nodes), name="nsqadmin_nodes"),
    path("nodes/<node:node>", _by_method(GET=reads.node, DELETE=acts.tombstone), name="nsqadmin_node"),
    path("counter", _by_method(GET=reads.counter), name="nsqadmin_counter"),
    path("graphite", _by_method(GET=reads.graphite), name="nsqadmin_graphite"),
]
