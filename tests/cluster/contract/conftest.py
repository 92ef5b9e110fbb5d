"""Each kind of node that the console acts on, behind its gateway."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import Addresses, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster
from admin_console.gateway.acting_nodes import ActingNode, EmbeddedNode
from admin_console.gateway.embedded import EmbeddedGateway
from admin_console.gateway.fan_out import fan_out
from admin_console.gateway.gateway import NO_AUTHOR, ActOrder, ActResult
from admin_console.gateway.node_gateway import NodeGateway
from admin_console.gateway.node_messages import NodeMessages
from queue_engine.service.runner import EngineRunner
from tests.benchmarks.peers import nsqd_server
from tests.support.fake_nsqd import FakeNsqd
from tests.support.processes.engine_api import EngineApi
from tests.support.processes.running_engine import RunningEngine
from tests.support.storage_kinds import engine_options
from tests.support.waiting import wait_for

EMBEDDED, PENSTOCK, FAKE_NSQD, NSQD = "embedded", "penstock-queue", "fake nsqd", "nsqd"
KINDS = (EMBEDDED, PENSTOCK, FAKE_NSQD, *([NSQD] if nsqd_server.program() else []))
OFTEN = Pace(period_s=0.02, retry_s=0.02, retry_max_s=0.05)


class _Api(EngineApi):
    def __init__(self, http_port: int) -> None:
        super().__init__()
        self.http_port = http_port


@dataclass
class NodeAtWork:
    """A node of one kind: its gateway, and its own API, by which the test looks at it."""

    kind: str
    gateway: ActingNode
    api: EngineApi
    messages: EmbeddedGateway | NodeMessages

    @property
    def is_nsqd(self) -> bool:
        return self.kind in (FAKE_NSQD, NSQD)

    def act(self, action: str, topic: str, channel: str = "", **details: Any) -> ActResult:
        (found,) = fan_out([(self.gateway, ActOrder(action, topic, channel, NO_AUTHOR, details))])
        assert found.node == self.gateway.name
        return found.result

    def hold(self, topic: str, *channels: str, messages: int = 0) -> None:
        """Make a topic with channels that have so many messages each."""
        self.api.http("POST", f"/topic/create?topic={topic}", b"")
        for channel in channels:
            self.api.http("POST", f"/channel/create?topic={topic}&channel={channel}", b"")
        for number in range(messages):
            self.api.http("POST", f"/pub?topic={topic}", b"m%d" % number)
        if messages and channels:
            wait_for("the messages in their channels", lambda: self.depth(topic, channels[-1]) == messages)

    def depth(self, topic: str, channel: str) -> int:
        depth: int = self.api.channel_stats(topic, channel)["depth"]
        return depth

    def topics(self) -> dict[str, list[str]]:
        """By name, the channels."""
        return {
            one["topic_name"]: [channel["channel_name"] for channel in one["channels"]]
            for one in self.api.stats()["topics"]
        }


def gateways_of(stack: ExitStack, path: Path, http_port: int) -> tuple[NodeGateway, NodeMessages]:
    """Acts on the node there, and reads of its messages."""
    addresses = Addresses.parse([], [f"127.0.0.1:{http_port}"])
    cluster = Cluster(ClusterOptions(addresses=addresses), ChosenAddresses(path, addresses), lambda: None, OFTEN)
    cluster.start()
    stack.callback(cluster.stop)
    wait_for("the node's first answer", lambda: cluster.state.answering)
    (node,) = cluster.state.answering
    return NodeGateway(node, cluster), NodeMessages(node, cluster)


@pytest.fixture(scope="module", params=KINDS)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeAtWork]:
    path = tmp_path_factory.mktemp("node")
    with ExitStack() as stack:
        if request.param == EMBEDDED:
            options = engine_options(
                tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(path), sync="os"
            )
            runner = EngineRunner(options)
            runner.start()
            stack.callback(runner.stop)
            embedded = EmbeddedGateway(runner, options)
            yield NodeAtWork(request.param, EmbeddedNode(embedded), _Api(runner.http_address[1]), embedded)
            return
        api: EngineApi
        if request.param == PENSTOCK:
            api = stack.enter_context(RunningEngine(path / "data", sync="os"))
        elif request.param == NSQD:
            api = stack.enter_context(nsqd_server.NsqdServer(path / "nsqd"))
        else:
            api = _Api(stack.enter_context(FakeNsqd()).port)
        gateway, messages = gateways_of(stack, path, api.http_port)
        yield NodeAtWork(request.param, gateway, api, messages)
