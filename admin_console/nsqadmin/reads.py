"""The paths that read: topics, a topic, a channel, nodes, a node, the counter."""

from django.http import HttpRequest, HttpResponse

from admin_console.cluster.lookupds.lookupd_answers import topics_listed
from admin_console.gateway.gateway import is_valid_name
from admin_console.nsqadmin import documents
from admin_console.nsqadmin.answers import complaint, upstream, warned
from admin_console.nsqadmin.callers import may_read
from admin_console.nsqadmin.cluster_now import ClusterNow, Found
from admin_console.nsqadmin.unknown import unknown_topic


def topics(request: HttpRequest) -> HttpResponse:
    """Every topic, or with `inactive=true` those without a producer, with their channels."""
    if not may_read(request):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    if request.GET.get("inactive") == "true":
        return _inactive(now)
    failures = now.lookupd_failures
    if now.has_lookupds and len(failures) == len(now.lookupds) and not now.own_name:
        return upstream("nsqlookupd", failures)
    names = {name for one in now.lookupds for name in one.topics}
    if not now.has_lookupds or now.own_name or now.cluster.state.addresses.nsqds:
        found = now.figures()
        names.update(name for one in found.answers for name in one.topics or ())
        failures = [*failures, *(found.failures if not now.has_lookupds else ())]
        if not found.answers and found.failures and not names:
            return upstream("nsqd", found.failures)
    return warned({"topics": sorted(names) or None}, failures)


def _inactive(now: ClusterNow) -> HttpResponse:
    reports = now.cluster.lookupds.reports([one.address for one in now.cluster.state.lookupds], is_new=True)
    answers = [one for one in reports if one is not None and not one.error]
    failures = [one.error for one in reports if one is not None and one.error]
    if failures and not answers:
        return upstream("nsqlookupd", failures)
    # Here a tombstoned node is none, as at nsqadmin.
    active = {topic for one in now.lookupds for node in one.nodes for topic in {*node.topics} - {*node.tombstoned}}
    lonely = {
        one.topic: sorted({*one.channels, *one.lonely}) or None
        for one in topics_listed(answers)
        if one.is_lonely or one.topic not in active
    }
    return warned({"topics": lonely}, failures)


def topic(request: HttpRequest, topic: str) -> HttpResponse:
    if not may_read(request, topic):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    if not is_valid_name(topic):
        return unknown_topic(now)
    found = now.figures(topic=topic).having(topic)
    if not found.answers and not _is_listed(now, topic, found):
        return _without(now, found)
    return warned(documents.topic_document(topic, found.answers), [*now.lookupd_errors, *found.failures])


def channel(request: HttpRequest, topic: str, channel: str) -> HttpResponse:
    if not may_read(request, topic):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    if not is_valid_name(topic):
        return unknown_topic(now)
    document, found = None, Found()
    if is_valid_name(channel):
        found = now.figures(topic=topic, channel=channel, clients=True)
        document = documents.channel_document(topic, channel, found.answers)
    if document is None:
        # Of one channel alone a node without it answers nothing.
        found = now.figures(topic=topic).having(topic)
        if not found.answers and not _is_listed(now, topic, found):
            return _without(now, found)
    return warned(document or {}, [*now.lookupd_errors, *found.failures])


def _is_listed(now: ClusterNow, topic: str, found: Found) -> bool:
    """Whether an nsqlookupd lists a topic that no node has any more: it is there, and empty."""
    return not found.failures and now.lists(topic)


def _without(now: ClusterNow, found: Found) -> HttpResponse:
    if found.failures or not now.has_lookupds:
        return upstream("nsqd", found.failures)
    return unknown_topic(now)


def nodes(request: HttpRequest) -> HttpResponse:
    if not may_read(request):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    failures = now.lookupd_failures
    producers = now.producers()
    if failures and len(failures) == len(now.lookupds) and not producers:
        return upstream("nsqlookupd", failures)
    return warned({"nodes": documents.producer_documents(producers)}, failures)


def node(request: HttpRequest, node: str) -> HttpResponse:
    if not may_read(request):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    if node not in {one.registration.address.bare for one in now.producers()} | {now.own_name}:
        return complaint("NODE_NOT_FOUND", status=404)
    found = now.figures(clients=True, node=node)
    if not found.answers:
        return upstream("nsqd", found.failures)
    return warned(documents.node_document(found.answers[0]), now.lookupd_failures)


def counter(request: HttpRequest) -> HttpResponse:
    if not may_read(request):
        return complaint("FORBIDDEN", status=403)
    now = ClusterNow()
    found = now.figures()
    if not found.answers and found.failures:
        return upstream("nsqd", found.failures)
    return warned({"stats": documents.counter_document(found.answers)}, [*now.lookupd_errors, *found.failures])


def graphite(request: HttpRequest) -> HttpResponse:
    """No Graphite is called: nsqadmin without one answers so. The history of this console has the rates."""
    if request.GET.get("metric") != "rate":
        return complaint("INVALID_ARG_METRIC", status=400)
    if "target" not in request.GET:
        return complaint("INVALID_ARG_TARGET", status=400)
    return complaint("INTERNAL_ERROR", status=500)
