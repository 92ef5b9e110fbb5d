"""One update a second for every distinct subscription, built and encoded once for all sockets that share it."""

import asyncio
import logging
from typing import Protocol

from django.conf import settings

from admin_console.cluster.cluster import get_cluster
from admin_console.gateway.cluster_view import ClusterView, cluster_view
from admin_console.gateway.gateway import EngineUnavailableError, get_gateway
from admin_console.gateway.in_flight_list import InFlightList, in_flight_list
from admin_console.gateway.pipeline import PipelineView, get_pipeline
from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen

logger = logging.getLogger(__name__)


class Subscriber(Protocol):
    """A socket that gets updates. `offer` must not wait."""

    def offer(self, update: bytes, sequence: int) -> None: ...


class Broadcast:
    """Subscriptions and their sockets. Belongs to the hub's event loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._subscribers: dict[Request, set[Subscriber]] = {}

    def add(self, request: Request, subscriber: Subscriber) -> None:
        self._subscribers.setdefault(request, set()).add(subscriber)
        self._hub.listeners.add(self.send_updates)

    def remove(self, request: Request, subscriber: Subscriber) -> None:
        subscribers = self._subscribers.get(request)
        if subscribers is None:
            return
        subscribers.discard(subscriber)
        if not subscribers:
            del self._subscribers[request]
        if not self._subscribers:
            self._hub.listeners.discard(self.send_updates)

    async def send_updates(self, live: LiveState) -> None:
        """Build and offer the update of every subscription; a failed one is logged and does not stop the others."""
        for request in tuple(self._subscribers):
            try:
                update = await self.build_update(request, live)
            except Exception:
                logger.exception("building an update failed page=%s", request.page)
                continue
            for subscriber in tuple(self._subscribers.get(request, ())):
                subscriber.offer(update, live.snapshot.sequence)
            # Pages and the engine get their turn between two updates.
            await asyncio.sleep(0)

    async def build_update(self, request: Request, live: LiveState) -> bytes:
        if request.topic and (nodes := get_cluster()) is not None:
            nodes.watch(request.topic, request.channel, clients=True)
            if live.cluster is not None:
                self._hub.node_rings.watch(request.topic, request.channel)
        in_flight: InFlightList | None = None
        http_address = ""
        try:
            gateway = get_gateway()
            http_address = gateway.node().http_address
            if request.page == "topic":
                gateway.watch("", "")
            if request.wants_in_flight and (request.topic, request.channel) in live.channels:
                # The engine reports consumers of watched channels only, for a few seconds after each call.
                gateway.watch(request.topic, request.channel)
                if live.channels[request.topic, request.channel].in_flight_count:
                    in_flight = await asyncio.to_thread(
                        in_flight_list, gateway, live.cluster, request.topic, request.channel
                    )
                else:
                    in_flight = InFlightList(())
        except EngineUnavailableError:
            pass  # the screen shows these figures as unknown
        view: PipelineView | None = None
        if request.wants_pipeline:
            # Small files, read in another thread: a slow disk delays this page alone.
            view = await asyncio.to_thread(get_pipeline(settings.DATA_PATH).view, request.replay)
        cluster: ClusterView | None = None
        if request.wants_clients:
            cluster = await asyncio.to_thread(cluster_view, with_clients=True, node=request.clients_of)
        elif request.wants_cluster:
            cluster = cluster_view()
        screen = build_screen(
            request, live, in_flight=in_flight, http_address=http_address, pipeline=view, cluster=cluster
        )
        return screen.update_json()
