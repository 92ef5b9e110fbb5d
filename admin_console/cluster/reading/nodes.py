"""The nodes of the cluster, each with its last answer: a frozen state, which the poller replaces."""

from dataclasses import dataclass, replace

from admin_console.cluster.calls.addresses import HttpAddress
from admin_console.cluster.calls.node_clock import ClockOffset
from admin_console.cluster.calls.options import NO_ADDRESSES, Addresses
from admin_console.cluster.reading.members import Member
from admin_console.cluster.reading.node_info import NodeInfo
from admin_console.cluster.reading.node_rates import NO_RATES, Rates
from admin_console.cluster.reading.node_stats import NodeStats
from admin_console.cluster.reading.totals import NodeSums

# A node names its start to the second, and clocks are compared to about one.
START_SLACK_MS = 5_000
# A call that waits in vain for as long as it may (5 s), 10 s after the last answer, is no single packet.
FIGURES_AGE_MS_MAX = 14_000


class NotCallingError(Exception):
    """No calls are made: a file of the options can't be used, or the server stops; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Answers:
    """How a node or nsqlookupd answers. Times are Unix milliseconds; 0 for never. took_ms: of the last answer. error:
    why it does not answer, a sentence; "" while it answers, a single failed call included (`after_failure`).
    failing_since_ms: of the first failure since the last answer; failed_at_ms: of the newest one. failures: since then,
    in a row."""

    answered_at_ms: int = 0
    took_ms: int = 0
    error: str = ""
    failing_since_ms: int = 0
    failures: int = 0
    failed_at_ms: int = 0

    @property
    def is_answering(self) -> bool:
        return bool(self.answered_at_ms) and not self.error

    def after_failure(self, error: str, now_ms: int) -> "Answers":
        """The answers once a call has failed. A single one, as of a packet that is lost, marks no page: the figures
        before it count until the call is repeated, unless they are old."""
        age_ms = now_ms - self.answered_at_ms
        is_silent = bool(self.error or self.failures or not self.answered_at_ms) or age_ms > FIGURES_AGE_MS_MAX
        return replace(
            self,
            error=error if is_silent else "",
            failing_since_ms=self.failing_since_ms or now_ms,
            failures=self.failures + 1,
            failed_at_ms=now_ms,
        )


NO_ANSWER = Answers()


@dataclass(frozen=True, slots=True)
class Node:
    """One node. info, stats, sums: of its last answer; None before the first. rates: up to it. gone_since_ms: when the
    last nsqlookupd stopped naming it, from then on without stats; 0 for a node that is named, or configured. clock:
    None where its answers have no date."""

    member: Member
    answers: Answers = NO_ANSWER
    info: NodeInfo | None = None
    stats: NodeStats | None = None
    gone_since_ms: int = 0
    sums: NodeSums | None = None
    rates: Rates = NO_RATES
    clock: ClockOffset | None = None

    @property
    def name(self) -> str:
        """As nsqadmin names a node: its broadcast address and HTTP port."""
        return self.member.named.bare

    @property
    def began_ms(self) -> int:
        """When its process started, Unix, by this server's clock, to about a second; 0 for unknown."""
        if self.stats is None or not self.stats.started_s:
            return 0
        return self.stats.started_s * 1_000 - (self.clock.differs_ms if self.clock is not None else 0)

    def has_begun_since(self, at_ms: int) -> bool:
        """Whether all that it has counted came after a moment (Unix): another process at its address may have been
        running before."""
        return self.began_ms >= at_ms - START_SLACK_MS


@dataclass(frozen=True, slots=True)
class Lookupd:
    """One nsqlookupd that nodes are looked up at. node_count: named in its last answer. unusable: entries of it whose
    address can't be called."""

    address: HttpAddress
    answers: Answers = NO_ANSWER
    node_count: int = 0
    unusable: int = 0


@dataclass(frozen=True, slots=True)
class ClusterState:
    """All of the cluster at one moment. nodes: sorted by address; refused ones among them, whose `member.refusal` says
    why. embedded: the addresses at which the engine of this process answers, which is no node of these."""

    addresses: Addresses = NO_ADDRESSES
    lookupds: tuple[Lookupd, ...] = ()
    nodes: tuple[Node, ...] = ()
    gone: tuple[Node, ...] = ()
    embedded: tuple[Member, ...] = ()

    @property
    def called(self) -> tuple[Node, ...]:
        """Those that the rules allow."""
        return tuple(node for node in self.nodes if not node.member.refusal)

    @property
    def answering(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.answers.is_answering)
