"""This server at all its nsqlookupds: which they are may change while it runs."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from queue_engine.engine.engine import Engine
from queue_engine.engine.running_config import addresses_setting
from queue_engine.service.lookup_client.channel_finder import ChannelFinder
from queue_engine.service.lookup_client.conversation import LookupConversation, TopicNumbers
from queue_engine.service.lookup_client.peer import LookupPeer, http_address_of
from queue_engine.service.loop.name_lookups import NameLookups, tcp_addresses
from queue_engine.vocabulary.clock import Clock
from queue_engine.vocabulary.options.discovery_options import LOOKUPDS_MAX
from queue_engine.vocabulary.ticket import Ticket
from queue_engine.vocabulary.version import NSQ_VERSION

# How often it looks whether to connect again, to ping, or to give up a reply. Names that come and go are sent at once.
CHECK_INTERVAL_S = 0.1
# nsqd's name of the option in /config.
OPTION = "nsqlookupd_tcp_addresses"


class LookupClient:
    """Registers the engine's topics and channels. Belongs to the engine's thread; make it before the engine opens.

    addresses: the TCP addresses of the nsqlookupds, as they are now.
    """

    def __init__(self, engine: Engine, clock: Clock, ports: Callable[[], tuple[int, int]]) -> None:
        """ports: those of TCP and HTTP that the server really has."""
        self._engine = engine
        self._clock = clock
        self._ports = ports
        self._peers: dict[str, LookupPeer] = {}
        self._names = NameLookups(tcp_addresses)
        self._finder = ChannelFinder(engine.options.lookupd_find_timeout_ms, self._names)
        self.addresses: tuple[str, ...] = ()
        self._has_peers = asyncio.Event()
        self._is_send_due = False
        engine.config.offer(OPTION, addresses_setting(lambda: self.addresses, self.set_addresses))

    def set_addresses(self, addresses: Sequence[str]) -> None:
        """Register with these from now on, and with no others. Raises ValueError with a sentence for too many."""
        if len(addresses) > LOOKUPDS_MAX:
            raise ValueError(f"{len(addresses)} addresses are given and the most is {LOOKUPDS_MAX}")
        self.addresses = tuple(dict.fromkeys(addresses))
        for address in [one for one in self._peers if one not in self.addresses]:
            self._peers.pop(address).close()
        for address in self.addresses:
            if address not in self._peers:
                peer = self._peers[address] = LookupPeer(address, self._clock, self._converse, self._names)
                peer.check()
        if self._peers:
            self._finder.prepare()
            self._has_peers.set()
        else:
            self._has_peers.clear()
        catalog = self._engine.catalog
        # A server without nsqlookupds pays nothing.
        catalog.on_names = self._changed if self._peers else lambda topic: None
        catalog.find_channels = self._find_channels if self._peers else lambda topic: None
        self._note_stats()

    async def check_once(self) -> None:
        """Wait for the interval, then let each connection do its due work. Without nsqlookupds, wait for some."""
        await self._has_peers.wait()
        await asyncio.sleep(CHECK_INTERVAL_S)
        for peer in list(self._peers.values()):
            peer.check()
        self._note_stats()

    async def close(self) -> None:
        """Leave all nsqlookupds: consumers find this server no longer. Topics that wait to be created go on."""
        self.set_addresses(())
        await self._finder.close()

    # Implements `Names`.

    def all_topics(self) -> Iterable[str]:
        return list(self._engine.topics)

    def topic(self, name: str) -> TopicNumbers | None:
        topic = self._engine.topics.get(name)
        if topic is None:
            return None
        return TopicNumbers(topic.number, {channel.name: channel.number for channel in topic.channels.values()})

    def _changed(self, topic: str) -> None:
        for peer in self._peers.values():
            peer.changed(topic)
        if not self._is_send_due:
            self._is_send_due = True
            asyncio.get_running_loop().call_soon(self._send_changes)

    def _send_changes(self) -> None:
        """Send the names that came and went in this turn of the loop, all together."""
        self._is_send_due = False
        for peer in list(self._peers.values()):
            peer.send()

    def _converse(self) -> LookupConversation:
        return LookupConversation(self._clock, self._identity(), self)

    def _identity(self) -> dict[str, Any]:
        options = self._engine.options
        tcp_port, http_port = self._ports()
        return {
            "version": NSQ_VERSION,
            "hostname": socket.gethostname(),
            "broadcast_address": options.effective_broadcast_address,
            "tcp_port": options.broadcast_tcp_port or tcp_port,
            "http_port": options.broadcast_http_port or http_port,
            "topology_zone": "",
            "topology_region": "",
        }

    def _find_channels(self, topic: str) -> tuple[Ticket, Sequence[str]] | None:
        connected = [peer.info for peer in self._peers.values() if peer.info is not None]
        addresses = [address for info in connected if (address := http_address_of(info))]
        return self._finder.find(topic, addresses) if addresses else None

    def _note_stats(self) -> None:
        self._engine.stats.note_lookupds(tuple(peer.stats() for peer in self._peers.values()))
