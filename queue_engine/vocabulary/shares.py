"""A pool that clients share: bytes, connections or places, of which one client can't hold so much that others get none.

A client may hold as much as is free beside it, times `ease` (dynamic thresholds: Choudhury and Hahne, 1998):

    clients that want all   1      2      3      n
    each gets, ease 1       1/2    1/3    1/4    1/(n+1)
    each gets, ease 3       3/4    3/7    3/10   3/(3n+1)

The rest stays free for the next client. Each part of a client's key counts for itself, its identity and its address,
and the one that holds more decides. The cost is the same whatever the pool holds.
"""

from queue_engine.vocabulary.client_key import ClientKey


class Shares:
    """Each client's share of `size`. used: by all of them."""

    def __init__(self, size: int, *, ease: int = 1) -> None:
        self.size = size
        self.used = 0
        self._ease = ease
        self._held: dict[str, int] = {}

    def held_of(self, part: str) -> int:
        return self._held.get(part, 0)

    def held_by(self, client: ClientKey) -> int:
        return max(map(self.held_of, client.parts), default=0)

    def has_share_for(self, client: ClientKey, amount: int = 1) -> bool:
        """Whether the client may hold `amount` more. One that holds nothing may have all that is free."""
        return amount <= self.size - self.used and not self.full_parts(client, amount)

    def full_parts(self, client: ClientKey, amount: int = 1) -> list[str]:
        """The parts of its key that hold something, and may not hold `amount` more."""
        most = self._ease * (self.size - self.used)
        return [part for part in client.parts if (held := self._held.get(part, 0)) and held + amount > most]

    def take(self, client: ClientKey, amount: int = 1) -> None:
        if not amount:
            return
        self.used += amount
        held = self._held
        for part in client.parts:
            held[part] = held.get(part, 0) + amount

    def give_back(self, client: ClientKey, amount: int = 1) -> None:
        if not amount:
            return
        self.used -= amount
        held = self._held
        for part in client.parts:
            left = held[part] - amount
            if left:
                held[part] = left
            else:
                del held[part]

    def largest(self) -> tuple[str, int]:
        """The part of a key that holds most, and its amount; ("", 0) while nothing is held. Looks at all."""
        return max(self._held.items(), key=lambda item: item[1], default=("", 0))
