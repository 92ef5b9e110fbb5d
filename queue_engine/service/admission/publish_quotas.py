"""Limits how fast each client publishes: the quotas of --publish-quota.

Each quota has one bucket a client: its token's name, or its address where it has no token. A bucket holds the amount
that the client may publish in one second, and fills at the quota's rate (the token bucket of networks). A batch larger
than the bucket is taken when the bucket is full and leaves a debt, so that each batch that the size limits allow can be
published.
"""

from collections.abc import Iterable

from queue_engine.vocabulary.client_key import source_of
from queue_engine.vocabulary.clock import NS_PER_MS, NS_PER_S, Clock
from queue_engine.vocabulary.errors import QuotaError
from queue_engine.vocabulary.publish_quota import PublishQuota, parse_publish_quota

# Clients and topics whose buckets are in memory: some 300 bytes each. Beyond it those that are full again are dropped.
REMEMBERED_MAX = 10_000


class Bucket:
    """The bucket of one client by one quota. messages, bytes: its content now; below 0 is a debt."""

    __slots__ = ("bytes", "filled_ns", "messages", "quota")

    def __init__(self, quota: PublishQuota, now_ns: int) -> None:
        self.quota = quota
        self.messages = float(quota.messages_per_s)
        self.bytes = float(quota.bytes_per_s)
        self.filled_ns = now_ns

    def fill(self, now_ns: int) -> None:
        quota = self.quota
        elapsed_s = (now_ns - self.filled_ns) / NS_PER_S
        self.filled_ns = now_ns
        self.messages = min(self.messages + elapsed_s * quota.messages_per_s, quota.messages_per_s)
        self.bytes = min(self.bytes + elapsed_s * quota.bytes_per_s, quota.bytes_per_s)

    def take(self, count: int, size: int) -> None:
        if self.quota.messages_per_s:
            self.messages -= count
        if self.quota.bytes_per_s:
            self.bytes -= size

    def is_full(self, now_ns: int) -> bool:
        self.fill(now_ns)
        return self.messages >= self.quota.messages_per_s and self.bytes >= self.quota.bytes_per_s

    def missing(self, count: int, size: int) -> tuple[float, str]:
        """How long until it holds so many messages and bytes, in seconds, and the limit that lacks; 0 when it does.
        More than it can hold is there when it is full."""
        quota = self.quota
        waits = [(0.0, "")]
        for rate, held, wanted, unit in (
            (quota.messages_per_s, self.messages, count, "messages"),
            (quota.bytes_per_s, self.bytes, size, "bytes"),
        ):
            if rate:
                waits.append(((min(wanted, rate) - held) / rate, f"{rate} {unit}"))
        return max(waits)


class PublishQuotas:
    """Belongs to the engine's thread. has_any: without quotas nothing needs to be taken."""

    def __init__(self, texts: Iterable[str], clock: Clock) -> None:
        """texts: values of --publish-quota, checked."""
        self._quotas = [parse_publish_quota(text) for text in texts]
        self.has_any = bool(self._quotas)
        self._clock = clock
        self._buckets: dict[tuple[str, PublishQuota], Bucket] = {}
        self._of_client: dict[tuple[str, str, str], list[Bucket]] = {}

    def take(self, token: str, remote_ip: str, topic: str, count: int, size: int) -> None:
        """Take `count` messages of `size` bytes together from all buckets of the client, or from none.

        token: its name; "" for a client without one, which its address identifies. Raises QuotaError.
        """
        if not self.has_any:
            return
        now_ns = self._clock.monotonic_ns()
        buckets = self._of_client.get((token, remote_ip, topic))
        if buckets is None:
            buckets = self._begin(token, remote_ip, topic, now_ns)
        for bucket in buckets:
            bucket.fill(now_ns)
            wait_s, limit = bucket.missing(count, size)
            if wait_s > 0:
                client = f"the token {token}" if token else f"{remote_ip} without a token"
                wait_ms = max(1, round(wait_s * NS_PER_S / NS_PER_MS))
                raise QuotaError(
                    f"topic {topic}: publish of {count} messages with {size} bytes refused, {client} has used its "
                    f"quota of {limit} a second (--publish-quota {bucket.quota.text}). Nothing was stored. There is "
                    f"room in {wait_ms} ms",
                    wait_ms,
                )
        for bucket in buckets:
            bucket.take(count, size)

    def _begin(self, token: str, remote_ip: str, topic: str, now_ns: int) -> list[Bucket]:
        if len(self._of_client) >= REMEMBERED_MAX:
            self._of_client.clear()
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.is_full(now_ns)}
        who = f"token {token}" if token else source_of(remote_ip)
        found = self._of_client[token, remote_ip, topic] = [
            self._buckets.setdefault((who, quota), Bucket(quota, now_ns))
            for quota in self._quotas
            if quota.applies(token, topic)
        ]
        return found
