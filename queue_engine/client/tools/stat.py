"""Prints the figures of topics and channels, summed over all servers, again and again."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from queue_engine.client.http_json import HttpJson, HttpRefusedError, UnreachableError, list_in
from queue_engine.client.tools.connecting import Connecting
from queue_engine.client.tools.running import Stopping

# Figure of /stats → heading. First the channel's gauges, then its counters since its servers started.
_NOW = {"depth": "DEPTH", "backend_depth": "ON DISK", "in_flight_count": "IN-FLIGHT", "deferred_count": "DEFERRED"}
_COUNTED = {"message_count": "MESSAGES", "requeue_count": "REQUEUED", "timeout_count": "TIMED OUT"}
_HEADINGS = ("TOPIC", "CHANNEL", *_NOW.values(), *_COUNTED.values(), "CONSUMERS", "IN/S", "DONE/S")


@dataclass(frozen=True, slots=True)
class StatOptions:
    """topic, channel: "" for all. count: how often to print, 0 for no end. http_urls: the servers' HTTP APIs; without
    them nsqlookupds name the servers."""

    topic: str = ""
    channel: str = ""
    interval_s: float = 2.0
    count: int = 0
    http_urls: Sequence[str] = ()


@dataclass(slots=True)
class Figures:
    """Sums over servers: of one channel, or of a topic that has none (channel "")."""

    by_name: dict[str, int] = field(default_factory=dict)
    consumers: int = 0

    def add(self, found: Mapping[str, Any]) -> None:
        for name in (*_NOW, "quarantined_count", *_COUNTED):
            value = found.get(name, 0)
            self.by_name[name] = self.by_name.get(name, 0) + (value if type(value) is int else 0)
        clients = found.get("client_count")
        if type(clients) is not int:
            clients = len(list_in(found, "clients"))
        self.consumers += clients

    @property
    def done(self) -> int:
        """Messages that came and are in the channel no more."""
        left = sum(self.by_name[name] for name in ("depth", "in_flight_count", "deferred_count", "quarantined_count"))
        return self.by_name["message_count"] - left


Table = dict[tuple[str, str], Figures]


def add_answer(table: Table, document: Any, topic: str = "", channel: str = "") -> None:
    """Add one server's answer to /stats. topic, channel: the only ones that count; "" for all."""
    for found in list_in(document, "topics"):
        if not isinstance(found, dict):
            continue
        name = found.get("topic_name")
        if not _is_name(name) or topic not in ("", name):
            continue
        channels = [
            one for one in list_in(found, "channels") if isinstance(one, dict) and _is_name(one.get("channel_name"))
        ]
        for one in channels:
            if channel in ("", one["channel_name"]):
                table.setdefault((name, one["channel_name"]), Figures()).add(one)
        if not channels and not channel:
            table.setdefault((name, ""), Figures()).add(found)


def _is_name(value: Any) -> TypeGuard[str]:
    """Whether it can be shown: names from a server could steer the terminal otherwise."""
    return isinstance(value, str) and value.isprintable()


def rows_of(table: Table, before: Table, passed_s: float) -> list[tuple[str, ...]]:
    """A row of texts for each channel, by name. before: the table `passed_s` seconds ago; {} for none."""
    rows = []
    for (topic, channel), figures in sorted(table.items()):
        past = before.get((topic, channel))
        rates = ["-", "-"]
        if past is not None and passed_s > 0:
            came = figures.by_name["message_count"] - past.by_name["message_count"]
            # A server that started again counts from 0: no rate is better than a wrong one.
            if came >= 0:
                rates = [f"{came / passed_s:,.1f}", f"{max(0, figures.done - past.done) / passed_s:,.1f}"]
        numbers = [f"{figures.by_name[name]:,}" for name in (*_NOW, *_COUNTED)]
        rows.append((topic, channel or "(none)", *numbers, f"{figures.consumers:,}", *rates))
    return rows


def lines_of(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The rows below their headings, in columns; names to the left, figures to the right."""
    table = [_HEADINGS, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(_HEADINGS))]
    return [
        "  ".join(
            text.ljust(width) if place < 2 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]


async def stat(
    connecting: Connecting,
    options: StatOptions,
    write: Callable[[str], None],
    complain: Callable[[str], None],
    stopping: Stopping,
) -> None:
    """Print the table every interval. A server that does not answer is left out of the sums, and `complain` reports it:
    each table names how many servers are in it. Raises UnreachableError when none answers the first time."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    before: Table = {}
    before_at, printed = 0.0, 0
    before_servers: frozenset[str] = frozenset()
    with stopping.calling(stop.set):
        async with connecting.http() as http:
            while not stop.is_set():
                table, servers, errors = await _ask_all(http, connecting, options)
                at = loop.time()
                for error in errors:
                    complain(error)
                if not servers and not printed:
                    raise UnreachableError("no server answers" if errors else "nsqlookupd names no server")
                # With other servers in the sums the difference is no rate.
                comparable = before if servers == before_servers else {}
                server_count = len(servers) + len(errors)
                write(f"{len(servers)} of {server_count} servers" + ("" if table else ": nothing to show"))
                if table:
                    for line in lines_of(rows_of(table, comparable, at - before_at)):
                        write(line)
                write("")
                before, before_at, before_servers = table, at, servers
                printed += 1
                if printed == options.count:
                    return
                try:
                    async with asyncio.timeout(options.interval_s):
                        await stop.wait()
                except TimeoutError:
                    pass


async def _ask_all(
    http: HttpJson, connecting: Connecting, options: StatOptions
) -> tuple[Table, frozenset[str], list[str]]:
    """The table, the servers that are in it, and a sentence for each that is not."""
    errors: list[str] = []
    urls = list(options.http_urls)
    for lookup_url in connecting.lookup_urls:
        try:
            urls += _http_urls_in(await http.get(f"{lookup_url}/nodes"))
        except (UnreachableError, HttpRefusedError) as exc:
            errors.append(str(exc))
    urls = sorted(set(urls))
    query = {"format": "json", "include_clients": "false", "include_mem": "false"}
    if options.topic:
        query["topic"] = options.topic
    if options.channel:
        query["channel"] = options.channel
    withheld = {url for url in urls if not _may_get_token(url, connecting, options)}
    asking = (http.get(f"{url}/stats", query, sends_token=url not in withheld) for url in urls)
    answers = await asyncio.gather(*asking, return_exceptions=True)
    table: Table = {}
    servers = []
    for url, answer in zip(urls, answers, strict=True):
        if isinstance(answer, HttpRefusedError) and answer.status in (401, 403) and url in withheld:
            host = urlsplit(url).hostname
            errors.append(
                f"{answer}. The token was not sent: an nsqlookupd named this address, and without TLS a secret goes "
                f"only where --nsqd-http-address or --auth-secret-to {host} allows it"
            )
        elif isinstance(answer, UnreachableError | HttpRefusedError):
            errors.append(str(answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            add_answer(table, answer, options.topic, options.channel)
            servers.append(url)
    return table, frozenset(servers), errors


def _may_get_token(url: str, connecting: Connecting, options: StatOptions) -> bool:
    """Whether a server may get the token without TLS; `HttpJson` sends none without it where TLS is wanted."""
    return url in options.http_urls or connecting.secret_hosts.allow(urlsplit(url).hostname or "")


def _http_urls_in(document: Any) -> list[str]:
    found = []
    for producer in list_in(document, "producers"):
        if not isinstance(producer, dict):
            continue
        host, port = producer.get("broadcast_address"), producer.get("http_port")
        if _is_name(host) and host and type(port) is int and 0 < port < 65536:
            shown = f"[{host}]" if ":" in host else host
            found.append(f"http://{shown}:{port}")
    return found
