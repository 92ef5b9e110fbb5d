"""One subscribed connection as delivery needs it: credit, counts, and the sink that sends."""

from typing import Protocol

from queue_engine.vocabulary.run import Run


class Sink(Protocol):
    """Where a consumer's messages go."""

    @property
    def is_writable(self) -> bool:
        """Whether the connection takes more: false while its unsent bytes exceed its output buffer."""
        ...

    @property
    def run_bytes_max(self) -> int:
        """How many bytes of frames the next run may have; a single message may have more."""
        ...

    def send_run(self, run: Run) -> None:
        """Hand the frames over. Never fails: a broken connection ends through `Channel.remove_consumer`."""
        ...

    def close_consumer(self) -> None:
        """End the connection, because its channel was deleted."""
        ...


class Consumer:
    """A consumer of one channel.

    Credit is NSQ's: messages are sent while fewer than `ready_count` are in flight. name, address: its name by
    IDENTIFY, and the address that it connected from; sample_rate: the percent of the messages taken for it that it
    gets, 0 for all; label: both, for the histories of messages that came back.
    """

    __slots__ = (
        "address",
        "finish_count",
        "in_flight_count",
        "is_closing",
        "key",
        "label",
        "max_msg_timeout_ns",
        "message_count",
        "msg_timeout_ns",
        "name",
        "ready_count",
        "requeue_count",
        "requeues_noted",
        "sample_rate",
        "sink",
        "timeout_count",
        "timeouts_noted",
    )

    def __init__(
        self,
        key: int,
        sink: Sink,
        *,
        msg_timeout_ns: int,
        max_msg_timeout_ns: int,
        sample_rate: int = 0,
        name: str = "",
        address: str = "",
    ) -> None:
        self.key = key
        self.name = name
        self.address = address
        self.label = f"{name} {address}".strip()
        self.sink = sink
        self.msg_timeout_ns = msg_timeout_ns
        self.max_msg_timeout_ns = max_msg_timeout_ns
        self.sample_rate = sample_rate
        self.ready_count = 0
        self.in_flight_count = 0
        self.is_closing = False
        # Counters since the connection began.
        self.message_count = 0
        self.finish_count = 0
        self.requeue_count = 0
        self.timeout_count = 0
        # The part of them that the channel's FailureWindow has noted.
        self.requeues_noted = 0
        self.timeouts_noted = 0

    @property
    def credit(self) -> int:
        """How many more messages it may be sent now."""
        return self.ready_count - self.in_flight_count
