"""Where the server registers its topics, and by which address others reach it."""

from collections.abc import Iterator
from dataclasses import dataclass

from queue_engine.vocabulary.options.addresses import split_address
from queue_engine.vocabulary.options.option import OptionGroup, flag_of, option

# The server registers every topic and channel with each.
LOOKUPDS_MAX = 32


@dataclass(frozen=True, init=False, repr=False, eq=False)
class DiscoveryOptions(OptionGroup):
    """nsqlookupds, and the address in registrations."""

    TITLE = "discovery by nsqlookupd"

    lookupd_tcp_address: tuple[str, ...] = option((), "HOST:PORT of an nsqlookupd to register topics and channels with")
    broadcast_tcp_port: int = option(
        0, "the TCP port that nsqlookupds give to consumers (0: that of --tcp-address)", low=0, high=65535
    )
    broadcast_http_port: int = option(
        0, "the HTTP port that nsqlookupds give out (0: that of --http-address)", low=0, high=65535
    )

    # Long enough for an answer, and for a publisher that waits for its OK short enough.
    lookupd_find_timeout_ms: int = option(
        2_000, "how long a new topic waits for nsqlookupds to name its channels on other nodes", low=0
    )

    def complaints(self) -> Iterator[str]:
        flag = flag_of("lookupd_tcp_address")
        for address in self.lookupd_tcp_address:
            try:
                host, port = split_address(address)
            except ValueError as exc:
                yield f"{flag}: {exc}"
                continue
            if not host or not port:
                yield f"{flag}: {address!r} names no host and port to connect to"
        if len(self.lookupd_tcp_address) > LOOKUPDS_MAX:
            yield f"{flag} is given {len(self.lookupd_tcp_address)} times: the most is {LOOKUPDS_MAX}"
