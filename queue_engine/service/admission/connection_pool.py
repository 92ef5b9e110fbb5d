"""The open connections of one listener: how many at once, how many of one client, and which one goes for a new one.

One address leaves a quarter to others (`queue_engine/vocabulary/shares.py`); an address that stands for many clients, a
trusted proxy's or a socket in the file system, has no share of its own. A connection that waits for its client's next
request goes when room is short, the one that is idle for longest: the same client's if it has one, else any in a pool
that is full.
"""

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from queue_engine.service.admission.refused_connections import Reason, RefusedConnections
from queue_engine.vocabulary.client_key import ClientKey
from queue_engine.vocabulary.shares import Shares

EASE = 3

C = TypeVar("C", bound=Hashable)


def _never(connection: object) -> None:
    raise AssertionError("a connection of this pool is never idle")


class ConnectionPool(Generic[C]):
    """refused: counts the connections beyond the limit, and has it. give_way: ends an idle connection at once."""

    def __init__(self, refused: RefusedConnections, give_way: Callable[[C], None] = _never) -> None:
        self.refused = refused
        self._give_way = give_way
        self._shares = Shares(refused.connections_max, ease=EASE)
        self._clients: dict[C, ClientKey] = {}  # of all open ones
        # Those that are idle, the longest idle first: all, and each client's.
        self._idle: dict[C, None] = {}
        self._idle_of: dict[ClientKey, dict[C, None]] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def __iter__(self) -> Iterator[C]:
        """Over those that are open now, whatever ends meanwhile."""
        return iter(list(self._clients))

    def enter(self, connection: C, client: ClientKey) -> str:
        """Add a new connection. Returns why it is refused, a sentence without its stop, or ""."""
        refusal = self.refusal(client)
        if not refusal:
            self.add(connection, client)
        return refusal

    def refusal(self, client: ClientKey) -> str:
        """Why another connection of this client is refused, which is counted; "" where there is room, or was made."""
        if self._shares.has_share_for(client) or self._make_room(client):
            return ""
        is_full = self._shares.used >= self._shares.size
        reason, who = Reason.TOO_MANY if is_full else Reason.TOO_MANY_OF_ONE, " and ".join(client.parts)
        self.refused.note(reason, who)
        return self.refused.sentence_for(reason, who, self._shares.held_by(client))

    def add(self, connection: C, client: ClientKey) -> None:
        """Count a new connection, for which there is room."""
        self._clients[connection] = client
        self._shares.take(client)

    def identified(self, connection: C, client: ClientKey) -> str:
        """Count a connection for the client that it turned out to be. Returns why it is refused, or ""."""
        before = self._clients.get(connection)
        if before is None or before == client:
            return ""
        self._shares.give_back(before)
        is_refused = not self._shares.has_share_for(client)
        self._clients[connection] = before if is_refused else client
        self._shares.take(self._clients[connection])
        if not is_refused:
            return ""
        who = client.parts[0]
        self.refused.note(Reason.TOO_MANY_OF_ONE, who)
        return self.refused.sentence_for(Reason.TOO_MANY_OF_ONE, who, self._shares.held_by(client))

    def leave(self, connection: C) -> None:
        """Forget a connection that has ended, or was refused."""
        client = self._clients.pop(connection, None)
        if client is not None:
            self._shares.give_back(client)

    def idle(self, connection: C) -> None:
        """It waits for its client's next request from now on."""
        client = self._clients.get(connection)
        if client is not None:
            self._idle[connection] = None
            self._idle_of.setdefault(client, {})[connection] = None

    def busy(self, connection: C) -> None:
        """It no longer is idle. Call it before `leave`, too."""
        if connection not in self._idle:
            return
        del self._idle[connection]
        client = self._clients[connection]
        own = self._idle_of[client]
        del own[connection]
        if not own:
            del self._idle_of[client]

    def _make_room(self, client: ClientKey) -> bool:
        """End an idle connection for a new one of this client."""
        own = self._idle_of.get(client)
        if own is None and self._shares.used < self._shares.size:
            return False
        longest_idle = next(iter(own or self._idle), None)
        if longest_idle is None:
            return False
        before = self._clients[longest_idle]
        self._shares.give_back(before)
        has_share = own is not None or self._shares.has_share_for(client)
        self._shares.take(before)
        if has_share:
            self.busy(longest_idle)
            self.leave(longest_idle)
            self._give_way(longest_idle)
        return has_share
