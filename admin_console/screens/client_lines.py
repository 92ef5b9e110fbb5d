"""Each client beside the others of its channel: which of them holds the messages and finishes none, which fail."""

from collections.abc import Iterable
from dataclasses import dataclass

from admin_console.gateway.client_list import Client, ClientList
from admin_console.screens.cells import Chip
from admin_console.vocabulary import units

# An outlier holds at least this share of the channel's messages in flight, this many times as many as its peers, and
# finishes less than this share of theirs.
_HELD_SHARE, _TIMES_PEERS, _FINISHED_SHARE = 0.5, 4, 0.25
_HELD_MIN, _CLIENTS_MIN = 10, 3
# Of the messages that it ended: given back or timed out.
_FAILED_SHARE, _FAILED_MIN = 0.1, 20


@dataclass(slots=True)
class Channel:
    """The consumers of a channel, at all nodes."""

    count: int = 0
    in_flight: int = 0
    ready: int = 0
    finished_s: float = 0.0

    def add(self, client: Client) -> None:
        self.count += 1
        self.in_flight += client.stats.in_flight_count
        self.ready += client.stats.ready_count
        if client.rates is not None:
            self.finished_s += client.rates.finished_s


@dataclass(frozen=True, slots=True)
class ClientLine:
    """A client with its channel. chips: its states, the gravest first. reason: of an outlier, a sentence."""

    client: Client
    channel: Channel
    chips: tuple[Chip, ...] = ()
    reason: str = ""

    @property
    def urgency(self) -> tuple[int, int]:
        return 2 if self.reason else 1 if self.chips else 0, self.client.stats.in_flight_count


def lines_of(clients: ClientList) -> list[ClientLine]:
    """Made once for a list."""
    made = clients.derived.get("lines")
    if isinstance(made, list):
        return made
    channels: dict[tuple[str, str], Channel] = {}
    for client in clients.clients:
        channels.setdefault((client.topic, client.channel), Channel()).add(client)
    lines = [_line(client, channels[client.topic, client.channel]) for client in clients.clients]
    clients.derived["lines"] = lines
    return lines


def texts_of(clients: ClientList) -> list[str]:
    """The words of each client that a search looks in, made once for a list."""
    made = clients.derived.get("texts")
    if not isinstance(made, list):
        made = clients.derived["texts"] = [client.text for client in clients.clients]
    return made


def mean(values: Iterable[float | None]) -> float | None:
    """None without a value."""
    found = [value for value in values if value is not None]
    return sum(found) / len(found) if found else None


def _line(client: Client, channel: Channel) -> ClientLine:
    if not client.topic:
        return ClientLine(client, channel)
    reason = _outlier(client, channel)
    chips = [Chip("▲ outlier", "danger", reason)] if reason else []
    share = client.failed_share
    if client.failed >= _FAILED_MIN and share >= _FAILED_SHARE:
        word = "timed out" if (client.timeouts or 0) > client.stats.requeue_count else "given back"
        title = f"Of the messages that it ended since it connected, {units.number(client.failed)} came back"
        chips.append(Chip(f"{units.share(share, 1)} {word}", "warning", title))
    return ClientLine(client, channel, tuple(chips), reason)


def _outlier(client: Client, channel: Channel) -> str:
    """Why it stands out among its peers; "" where it does not, and while rates are unknown."""
    held, peers = client.stats.in_flight_count, channel.count - 1
    if client.rates is None or channel.count < _CLIENTS_MIN or held < max(_HELD_MIN, _HELD_SHARE * channel.in_flight):
        return ""
    finished_s, of_peers_s = client.rates.finished_s, channel.finished_s - client.rates.finished_s
    holds_most = held * peers >= _TIMES_PEERS * (channel.in_flight - held)
    if not holds_most or of_peers_s <= 0 or finished_s * peers > _FINISHED_SHARE * of_peers_s:
        return ""
    finishes = f"finishes {units.rate(finished_s)}" if finished_s else "finishes none"
    share = units.share(held, channel.in_flight)
    return f"Holds {share} of the channel's messages and {finishes}. Its {peers} peers finish {units.rate(of_peers_s)}."
