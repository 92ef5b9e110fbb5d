"""The paths of nsqadmin's interface, without a slash at their end, as its programs send them."""

from django.urls import path

from admin_console.nsqadmin import acts, reads
from admin_console.nsqadmin.answers import by_method

urlpatterns = [
    path("topics", by_method(GET=reads.topics, POST=acts.create), name="nsqadmin_topics"),
    path("topics/<str:topic>", by_method(GET=reads.topic, POST=acts.act_on, DELETE=acts.delete), name="nsqadmin_topic"),
    path(
        "topics/<str:topic>/<str:channel>",
        by_method(GET=reads.channel, POST=acts.act_on, DELETE=acts.delete),
        name="nsqadmin_channel",
    ),
    path("nodes", by_method(GET=reads.nodes), name="nsqadmin_nodes"),
    path("nodes/<node:node>", by_method(GET=reads.node, DELETE=acts.tombstone), name="nsqadmin_node"),
    path("counter", by_method(GET=reads.counter), name="nsqadmin_counter"),
    path("graphite", by_method(GET=reads.graphite), name="nsqadmin_graphite"),
]
