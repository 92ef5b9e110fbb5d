"""kill -9 of the real server under 8 producers and 4 consumers: every message that got OK is there after the restart.

    python -m tests.faults.kill_runs [KILLS] [SEED]     (1,000 kills by default; about three seconds each)

Each round starts the server on the same data directory, loads it from threads, kills it at a moment of chance, starts
it again, and takes everything that waits. A message is accounted for when a consumer sent FIN for it before the kill,
or when it comes after it. Meanwhile an operator of each channel finishes messages that wait, are deferred or in flight
by their ids, which never come again once that was answered, and pauses it with a reason and an end: it is paused after
the restart as the last answer said, and resumes by itself at the end.
"""

import base64
import http.client
import random
import struct
import sys
import tempfile
import threading
import time
import urllib.error
from collections.abc import Callable
from pathlib import Path

import orjson

from tests.support.nsq_socket import FRAME_ERROR, Message, NsqSocket, mpub_body, sized
from tests.support.processes.engine_api import EngineApi
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

TOPIC = "orders"
CHANNELS = ("billing", "archive")
PRODUCERS = 8
CONSUMERS_EACH = 2
POLICIES = ("always", "interval", "os")
ACKNOWLEDGED_MIN = 100  # of a round, before the kill
ACTS_MIN = 3  # of each operator
# Segments of a megabyte: every round fills some.
OPTIONS = ("--log-segment-bytes=1048576", "--max-body-size=65536", "--max-msg-size=65536", "--sync-interval=50ms")


STATES = ("waiting", "deferred", "in_flight")
BY_HAND_MAX = 3
REFUSALS = (b"E_FIN_FAILED", b"E_REQ_FAILED")  # of what was finished by hand
# A pause that ends while the server is down or a moment later, and one that does not end by itself here.
SOON, LATE = "500ms", "5h"


class LostError(AssertionError):
    """The server broke its promise; the text says which."""


class Round:
    """The load of one round, and what it knows when the server is gone."""

    def __init__(self, number: int, server: ServerProcess, rng: random.Random) -> None:
        self._number = number
        self._server: EngineApi = server
        self._port = server.tcp_port
        self._seeds = [rng.random() for _ in range(PRODUCERS + (CONSUMERS_EACH + 1) * len(CHANNELS))]
        self._lock = threading.Lock()
        self.errors: list[Exception] = []
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.acknowledged_at: dict[bytes, float] = {}  # time.monotonic
        self.finished_at: dict[str, dict[bytes, float]] = {channel: {} for channel in CHANNELS}
        self.finished: dict[str, set[bytes]] = {channel: set() for channel in CHANNELS}
        self.attempts: dict[str, dict[bytes, int]] = {channel: {} for channel in CHANNELS}
        self.finished_by_hand: dict[str, set[bytes]] = {channel: set() for channel in CHANNELS}  # that was answered
        self.act_count = dict.fromkeys(CHANNELS, 0)  # of the operator that were answered
        self.pauses: dict[str, set[str]] = {channel: {""} for channel in CHANNELS}  # reasons that it may have; "": none

    def start(self) -> list[threading.Thread]:
        works: list[Callable[[random.Random], None]] = [
            lambda rng, who=number: self._produce(who, rng) for number in range(PRODUCERS)
        ]
        for channel in CHANNELS:
            works += [lambda rng, where=channel: self._consume(where, rng)] * CONSUMERS_EACH
            works.append(lambda rng, where=channel: self._operate(where, rng))
        threads = [
            threading.Thread(target=self._until_the_end, args=(work, random.Random(seed)))
            for work, seed in zip(works, self._seeds, strict=True)
        ]
        for thread in threads:
            thread.start()
        return threads

    def has_enough(self) -> bool:
        has_acts = min(self.act_count.values()) >= ACTS_MIN
        return bool(self.errors) or (has_acts and len(self.acknowledged) > ACKNOWLEDGED_MIN)

    def _until_the_end(self, work: Callable[[random.Random], None], rng: random.Random) -> None:
        try:
            work(rng)
        except (EOFError, OSError, http.client.HTTPException):
            pass  # killed
        except Exception as exc:
            self.errors.append(exc)

    def _produce(self, who: int, rng: random.Random) -> None:
        with NsqSocket(self._port) as client:
            count = 0
            while True:
                size = rng.choice((1, 1, 5, 50))
                bodies = [b"%d.%d.%d" % (self._number, who, count + index) for index in range(size)]
                bodies = [body.ljust(rng.choice((20, 200, 1_000)), b".") for body in bodies]
                count += size
                with self._lock:
                    self.sent.update(bodies)
                if size == 1:
                    client.send(b"PUB %b\n" % TOPIC.encode() + sized(bodies[0]))
                else:
                    client.send(b"MPUB %b\n" % TOPIC.encode() + sized(mpub_body(bodies)))
                client.expect_ok()
                with self._lock:
                    self.acknowledged.update(bodies)
                    self.acknowledged_at.update(dict.fromkeys(bodies, time.monotonic()))

    def _consume(self, channel: str, rng: random.Random) -> None:
        with NsqSocket(self._port) as client:
            client.subscribe(TOPIC, channel, rdy=50)
            while True:
                kind, data = client.read_beyond_heartbeats(30)
                if kind == FRAME_ERROR:
                    assert data.split()[0] in REFUSALS, data
                    continue  # the operator finished it
                timestamp_ns, count = struct.unpack_from(">qH", data)
                message = Message(timestamp_ns, count, data[10:26], data[26:])
                with self._lock:
                    seen = self.attempts[channel]
                    seen[message.body] = max(seen.get(message.body, 0), message.attempts)
                if rng.random() < 0.1:
                    client.send(b"REQ %b %d\n" % (message.id, rng.choice((0, 0, 300))))
                elif rng.random() < 0.9:
                    with self._lock:
                        self.finished[channel].add(message.body)
                        self.finished_at[channel][message.body] = time.monotonic()
                    client.finish(message)

    def _operate(self, channel: str, rng: random.Random) -> None:
        names = f"topic={TOPIC}&channel={channel}"
        for number in range(1_000_000):
            time.sleep(rng.uniform(0, 0.02))
            if rng.random() < 0.7:
                self._finish_by_hand(channel, names, rng)
                continue
            reason = f"{rng.choice((SOON, LATE))} {self._number}.{number}"
            how_long = reason.split()[0]
            self._pausing(channel, reason, f"/channel/pause?{names}&for={how_long}&reason={reason.replace(' ', '+')}")
            time.sleep(rng.uniform(0, 0.05))
            if rng.random() < 0.7:
                self._pausing(channel, "", f"/channel/unpause?{names}")

    def _pausing(self, channel: str, reason: str, path: str) -> None:
        with self._lock:
            self.pauses[channel].add(reason)
        self._server.http("POST", path)
        with self._lock:
            self.pauses[channel] = {reason}
            self.act_count[channel] += 1

    def _finish_by_hand(self, channel: str, names: str, rng: random.Random) -> None:
        state = rng.choice(STATES)
        rows = orjson.loads(self._server.http("GET", f"/channel/messages?{names}&state={state}&limit=50"))["messages"]
        bodies: dict[str, bytes] = {}
        for row in rng.sample(rows, min(len(rows), BY_HAND_MAX)):
            try:
                answer = self._server.http("GET", f"/channel/message?{names}&id={row['id']}")
            except urllib.error.HTTPError:
                continue  # finished meanwhile
            bodies[row["id"]] = _body_of(orjson.loads(answer)["message"])
        if not bodies:
            return
        with self._lock:
            self.finished[channel].update(bodies.values())
        answer = self._server.http("POST", f"/channel/message/finish?{names}", "\n".join(bodies).encode())
        done = [bodies[result["asked"]] for result in orjson.loads(answer)["results"] if not result["code"]]
        with self._lock:
            self.finished_by_hand[channel].update(done)
            self.act_count[channel] += bool(done)
            self.finished_at[channel].update(dict.fromkeys(done, time.monotonic()))


def _body_of(message: dict[str, str]) -> bytes:
    return message["body"].encode() if "body" in message else base64.b64decode(message["body_base64"])


def resume(server: ServerProcess, load: Round, channel: str) -> None:
    """A channel is paused after a restart as the last answer said. One whose pause ends resumes by itself, another one
    here. Raises LostError."""
    stats = server.channel_stats(TOPIC, channel)
    reason = stats["pause"]["reason"] if stats["paused"] else ""
    # A pause that ends may be over.
    may_be = load.pauses[channel] | {"" for one in load.pauses[channel] if one.startswith(SOON)}
    if reason not in may_be:
        raise LostError(f"{channel}: paused by {reason!r}, which should be one of {sorted(may_be)}")
    if reason.startswith(LATE):
        hours = (stats["pause"]["until_ms"] - stats["pause"]["since_ms"]) / 3_600_000
        if not 4.9 < hours < 5.1:
            raise LostError(f"{channel}: the pause of 5 h ends after {hours:.2f} h")
        server.http("POST", f"/channel/unpause?topic={TOPIC}&channel={channel}")
    wait_for(f"the end of {channel}'s pause", lambda: not server.channel_stats(TOPIC, channel)["paused"])


def judge(load: Round, channel: str, found: list[Message]) -> None:
    """Raises LostError when what came after the restart does not fit what was known before the kill."""
    bodies = {message.body for message in found}
    if len(bodies) != len(found):
        raise LostError(f"{channel}: {len(found) - len(bodies)} messages came twice")
    alien = bodies - load.sent
    if alien:
        raise LostError(f"{channel}: {len(alien)} messages were never published, such as {min(alien)[:40]!r}")
    again = bodies & load.finished_by_hand[channel]
    if again:
        raise LostError(f"{channel}: {len(again)} messages finished by hand come again, such as {min(again)[:40]!r}")
    lost = load.acknowledged - load.finished[channel] - bodies
    if lost:
        raise LostError(f"{channel}: {len(lost)} acknowledged messages are lost, such as {min(lost)[:40]!r}")
    for message in found:
        made = load.attempts[channel].get(message.body, 0)
        if message.attempts <= made:
            raise LostError(f"{channel}: attempt {message.attempts} of {message.body[:40]!r} after attempt {made}")


def drain(server: ServerProcess, channel: str) -> list[Message]:
    """Consume and finish every waiting message, as many as the server reports."""
    wait_for("what is deferred", lambda: not server.channel_stats(TOPIC, channel)["deferred_count"])
    depth = int(server.channel_stats(TOPIC, channel)["depth"])
    found = []
    with NsqSocket(server.tcp_port) as client:
        client.subscribe(TOPIC, channel, rdy=2_500)
        for _ in range(depth):
            message = client.read_message()
            client.finish(message)
            found.append(message)
        client.expect_silence(0.05)
        client.send(b"CLS\n")
        assert client.read_response() == b"CLOSE_WAIT"
    return found


def run(directory: Path, kills: int, seed: int, *, policy: str, tell: Callable[[str], None] = lambda text: None) -> int:
    """So many kills on one data directory; returns how many messages were acknowledged. Raises LostError."""
    rng = random.Random(seed)
    total = 0
    # The console makes each start a second longer; what becomes of messages is the same with it.
    kind = ServerProcess if policy == "always" else EngineProcess
    server = kind(directory, options=[*OPTIONS, f"--sync={policy}"])
    server.start()
    try:
        for channel in CHANNELS:
            server.http("POST", f"/topic/create?topic={TOPIC}")
            server.http("POST", f"/channel/create?topic={TOPIC}&channel={channel}")
        for number in range(kills):
            load = Round(number, server, rng)
            threads = load.start()
            time.sleep(rng.uniform(0.1, 0.6))
            wait_for("enough to be lost", load.has_enough)
            server.kill9()
            for thread in threads:
                thread.join()
            if load.errors:
                raise load.errors[0]
            server.start()
            for channel in CHANNELS:
                resume(server, load, channel)
                judge(load, channel, drain(server, channel))
            total += len(load.acknowledged)
            tell(f"{policy} {number + 1}/{kills}: {total} messages acknowledged, none lost")
        server.stop()
    except BaseException:
        sys.stderr.write(server.log[-4_000:])
        server.kill9()
        raise
    return total


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    print(f"seed {seed}")
    for policy in POLICIES:
        with tempfile.TemporaryDirectory(prefix="penstock-kill-") as directory:
            run(Path(directory) / "data", -(-kills // len(POLICIES)), seed, policy=policy, tell=print)


if __name__ == "__main__":
    main()
