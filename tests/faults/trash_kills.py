"""kill -9 of a real server while channels are emptied, deleted, made anew by their clients and restored.

    python -m tests.faults.trash_kills [MESSAGES] [SEED] [KILLS]     (100,000 messages and 60 kills by default)

Producers publish, consumers of two channels finish, requeue and forget what they get, an operator empties and deletes
one of the channels and restores what is in the trash, and finishes messages by hand. The server is killed at moments
of chance, half of them inside such an act. At the end of each part everything is restored and taken out.

A message counts as finished when the server surely took its FIN: `WireClient.clear` returned behind it, whose answers
come after the server has written down what came before. What was sent and not answered may come again, or not.

- what is finished never comes on a connection that began later, and is not there at the end;
- what was acknowledged and is not finished comes at the end, once.
"""

import http.client
import random
import shutil
import sys
import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson

from tests.faults.kill_runs import LostError
from tests.faults.wire.client import WireClient, WireClosedError, WireSilentError
from tests.faults.wire.engine import MUTANT_FLAG, WireEngine
from tests.support.nsq_socket import Message, mpub_body, sized
from tests.support.waiting import wait_for

TOPIC = "orders"
CHANNELS = ("billing", "archive")
EMPTIED = CHANNELS[0]  # the channel of the operator's acts
CONSUMERS_EACH = 3
BATCH = 100
PART_KILLS = 6  # between two looks at everything
# Segments of a megabyte: they are merged, punched and removed while the trash needs some of them.
OPTIONS = (
    "--storage=log",
    "--log-segment-bytes=1048576",
    "--max-body-size=65536",
    "--max-msg-size=65536",
    "--msg-timeout=1s",
    "--queue-scan-interval=50ms",
    "--sync=always",
)
_ENDED = (WireClosedError, WireSilentError, OSError)


class Ledger:
    """What is known of every message, by its body; of each channel. Any thread.

    finished_at: when it was known that the server had taken its FIN (monotonic). by_hand: which of them by an operator.
    perhaps: how many FINs were sent for
    it of which the end is unknown.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.acknowledged: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.finished_at: dict[str, dict[bytes, float]] = {channel: {} for channel in CHANNELS}
        self.perhaps: dict[str, Counter[bytes]] = {channel: Counter() for channel in CHANNELS}
        self.id_of: dict[bytes, bytes] = {}
        self.by_hand: dict[str, set[bytes]] = {channel: set() for channel in CHANNELS}
        self.acts: Counter[str] = Counter()  # kinds of those that were answered

    def delivered(self, channel: str, messages: list[Message], connected_at: float) -> None:
        """Raises LostError when one of them was finished before the connection began."""
        with self.lock:
            finished_at = self.finished_at[channel]
            for message in messages:
                self.id_of[message.body] = message.id
                at = finished_at.get(message.body)
                if at is not None and at < connected_at:
                    raise LostError(
                        f"{channel}: {message.body!r} comes, attempt {message.attempts}, {time.monotonic() - at:.2f} s "
                        f"after it was finished{' by hand' if message.body in self.by_hand[channel] else ''}"
                    )
                if message.body not in self.sent:
                    raise LostError(f"{channel}: {message.body!r} was never published")

    def finishing(self, channel: str, bodies: list[bytes]) -> None:
        with self.lock:
            self.perhaps[channel].update(bodies)

    def finished(self, channel: str, taken: list[bytes], refused: list[bytes]) -> None:
        now = time.monotonic()
        with self.lock:
            for body in taken:
                self.finished_at[channel].setdefault(body, now)
            self.perhaps[channel] -= Counter([*taken, *refused])

    def unfinished(self, channel: str) -> set[bytes]:
        return self.acknowledged - self.finished_at[channel].keys() - self.perhaps[channel].keys()


class Part:
    """The load between two starts of the server."""

    def __init__(self, server: WireEngine, ledger: Ledger, rng: random.Random, number: int, count: int) -> None:
        self._server = server
        self._ledger = ledger
        self._number = number
        self._count = count
        self._is_over = threading.Event()
        self.errors: list[Exception] = []
        self.is_published = False
        works: list[Callable[[random.Random], None]] = [self._produce, self._operate, self._finish_by_hand]
        for channel in CHANNELS:
            works += [lambda rng, where=channel: self._consume(where, rng)] * CONSUMERS_EACH
        self._threads = [
            threading.Thread(target=self._until_the_end, args=(work, random.Random(rng.random()))) for work in works
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_until_published(self) -> None:
        wait_for("all to be published", lambda: self.is_published or self.errors)

    def end(self) -> None:
        """The server was killed. Raises what a thread found."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive(), "a client does not end"
        if self.errors:
            raise self.errors[0]

    def _until_the_end(self, work: Callable[[random.Random], None], rng: random.Random) -> None:
        while not self._is_over.is_set():
            try:
                work(rng)
            except (*_ENDED, urllib.error.URLError, http.client.HTTPException):
                self._is_over.wait(0.005)  # disconnected by an act, or the server was killed
            except Exception as exc:
                self.errors.append(exc)
                return

    def _produce(self, rng: random.Random) -> None:
        client = WireClient(self._server.tcp_port)
        try:
            while self._count and not self._is_over.is_set():
                bodies = []
                for _ in range(min(BATCH, self._count)):
                    bodies.append(b"%d.%d" % (self._number, self._count))
                    self._count -= 1
                with self._ledger.lock:
                    self._ledger.sent.update(bodies)
                client.send(f"MPUB {TOPIC}\n".encode() + sized(mpub_body([one.ljust(150, b".") for one in bodies])))
                client.expect(b"OK")
                with self._ledger.lock:
                    self._ledger.acknowledged.update(bodies)
            self.is_published = not self._count
            self._is_over.wait(0.05)
        finally:
            client.close()

    def _consume(self, channel: str, rng: random.Random) -> None:
        client = WireClient(self._server.tcp_port)
        connected_at = time.monotonic()
        try:
            client.subscribe(TOPIC, channel)
            client.send(b"RDY %d\n" % rng.choice((1, 20, 200)))
            later: list[Message] = []
            for _ in range(rng.choice((5, 50, 500))):
                if self._is_over.is_set():
                    return
                messages = client.messages() + later
                if not messages:
                    self._is_over.wait(0.002)
                    continue
                later = self._answer(client, channel, messages, connected_at, rng)
        finally:
            client.close()

    def _answer(
        self, client: WireClient, channel: str, messages: list[Message], connected_at: float, rng: random.Random
    ) -> list[Message]:
        """Finish most of them, requeue some, forget a few; returns what came meanwhile."""
        ledger = self._ledger
        by_id = {message.id: Message(*_stripped(message)) for message in messages}
        ledger.delivered(channel, list(by_id.values()), connected_at)
        kinds = rng.choices((b"FIN", b"REQ", b""), (8, 2, 1), k=len(by_id))
        verb_of = dict(zip(by_id, kinds, strict=True))
        bodies = {one: message.body for one, message in by_id.items() if verb_of[one] == b"FIN"}
        ledger.finishing(channel, list(bodies.values()))
        client.say(b"REQ", [one for one, verb in verb_of.items() if verb == b"REQ"], b"0")
        client.say(b"FIN", list(bodies))
        came, refused = client.clear()
        ledger.finished(
            channel,
            [body for one, body in bodies.items() if one not in refused],
            [body for one, body in bodies.items() if one in refused],
        )
        return came

    def _operate(self, rng: random.Random) -> None:
        """Empty, delete, restore."""
        time.sleep(rng.uniform(0, 0.02))
        kind = rng.choice(("empty", "empty", "delete", "restore", "restore", "restore"))
        if kind == "restore":
            self._restore(rng)
        else:
            self._act(kind, f"/channel/{kind}?topic={TOPIC}&channel={EMPTIED}")

    def _restore(self, rng: random.Random) -> None:
        entries = entries_of(self._server)
        if entries:
            self._act("restore", f"/trash/restore?id={rng.choice(entries)}")

    def _act(self, kind: str, path: str) -> None:
        try:
            self._server.http("POST", path)
        except urllib.error.HTTPError as exc:
            if exc.code not in (404, 409):  # its clients have not made it anew yet
                raise LostError(f"{path}: {exc.code} {exc.read()!r}") from exc
        else:
            self._ledger.acts[kind] += 1

    def _finish_by_hand(self, rng: random.Random) -> None:
        """A few messages by their ids, wherever they stand."""
        ledger = self._ledger
        channel = rng.choice(CHANNELS)
        self._is_over.wait(rng.uniform(0.01, 0.1))
        with ledger.lock:
            known = [body for body in list(ledger.id_of)[-500:] if body not in ledger.finished_at[channel]]
            bodies = {ledger.id_of[body]: body for body in rng.sample(known, min(len(known), 20))}
        ledger.finishing(channel, list(bodies.values()))
        try:
            answer = self._server.http(
                "POST", f"/channel/message/finish?topic={TOPIC}&channel={channel}", b"\n".join(bodies)
            )
        except urllib.error.HTTPError:
            return  # the channel is gone; those stay uncertain
        results = orjson.loads(answer)["results"]
        taken = [bodies[one["asked"].encode()] for one in results if not one["code"]]
        refused = [bodies[one["asked"].encode()] for one in results if one["code"]]
        ledger.finished(channel, taken, refused)
        ledger.by_hand[channel].update(taken)
        ledger.acts["by hand"] += len(taken)


def _stripped(message: Message) -> tuple[int, int, bytes, bytes]:
    return message.timestamp_ns, message.attempts, message.id, message.body.rstrip(b".")


def entries_of(server: WireEngine) -> list[int]:
    """The ids in the trash."""
    return [one["id"] for one in orjson.loads(server.http("GET", "/trash"))["entries"]]


def look_at_everything(server: WireEngine, ledger: Ledger) -> int:
    """Restore all of the trash, take everything out of the channels, judge it; returns how many messages came."""
    for channel in CHANNELS:
        server.http("POST", f"/channel/create?topic={TOPIC}&channel={channel}")
    while entries := entries_of(server):
        server.http("POST", f"/trash/restore?id={entries[0]}")
    count = 0
    for channel in CHANNELS:
        found = _drained(server, ledger, channel)
        count += len(found)
        again = found & ledger.finished_at[channel].keys()
        if again:
            raise LostError(f"{channel}: {len(again)} finished messages came again, such as {min(again)!r}")
        lost = ledger.unfinished(channel) - found
        if lost:
            raise LostError(f"{channel}: {len(lost)} acknowledged messages are lost, such as {min(lost)!r}")
        now = time.monotonic()
        ledger.finished_at[channel].update(dict.fromkeys(found, now))
        # What may have been finished and did not come was.
        ledger.finished_at[channel].update(dict.fromkeys(ledger.perhaps[channel], now))
        ledger.perhaps[channel].clear()
    return count


def _drained(server: WireEngine, ledger: Ledger, channel: str) -> set[bytes]:
    found: set[bytes] = set()
    client = WireClient(server.tcp_port)
    connected_at = time.monotonic()
    client.identify(msg_timeout=60_000)
    client.subscribe(TOPIC, channel)
    client.send(b"RDY 2500\n")

    def is_empty() -> bool:
        messages = client.messages()
        while messages:
            ledger.delivered(channel, [Message(*_stripped(one)) for one in messages], connected_at)
            bodies = [one.body.rstrip(b".") for one in messages]
            twice = found & set(bodies)
            if twice or len(set(bodies)) < len(bodies):
                raise LostError(f"{channel}: messages came twice, such as {min(twice or bodies)!r}")
            found.update(bodies)
            client.say(b"FIN", [one.id for one in messages])
            messages, refused = client.clear()
            if refused:
                raise LostError(f"{channel}: {len(refused)} FINs were refused")
        stats = server.channel_stats(TOPIC, channel)
        left = stats["depth"] + stats["in_flight_count"] + stats["deferred_count"]
        return not left and not server.topic_stats(TOPIC)["depth"]

    wait_for(f"all of {channel}", is_empty)
    client.close()
    return found


def run(
    directory: Path, messages: int, seed: int, kills: int, *, mutant: str = "", tell: Callable[[str], None] = print
) -> Ledger:
    """So many messages and kills on one data directory. Raises LostError."""
    rng = random.Random(seed)
    ledger = Ledger()
    server = WireEngine(directory, options=[*OPTIONS, *([MUTANT_FLAG + mutant] if mutant else [])])
    server.start()
    came = 0
    try:
        server.http("POST", f"/topic/create?topic={TOPIC}")
        for channel in CHANNELS:
            server.http("POST", f"/channel/create?topic={TOPIC}&channel={channel}")
        for number in range(kills):
            part = Part(server, ledger, rng, number, messages // kills)
            part.start()
            part.wait_until_published()
            time.sleep(rng.uniform(0, 0.5))
            server.kill9()
            part.end()
            server.start()
            if (number + 1) % PART_KILLS == 0 or number + 1 == kills:
                came += look_at_everything(server, ledger)
                taken = {channel: len(ledger.finished_at[channel]) for channel in CHANNELS}
                tell(f"seed {seed}, {number + 1} kills: {len(ledger.acknowledged)} acknowledged, {taken} finished")
        server.stop()
    except BaseException:
        first = server.log.find("Traceback")  # the others follow from it
        sys.stderr.write(server.log[max(first - 2_000, 0) :][:8_000] if first >= 0 else server.log[-4_000:])
        (directory.parent / "server.log").write_text(server.log)
        server.kill9()
        raise
    acts = ", ".join(f"{count} {kind}" for kind, count in sorted(ledger.acts.items()))
    tell(
        f"seed {seed}: {kills} kills, {len(ledger.acknowledged)} acknowledged, {came} left for the looks; {acts}: held"
    )
    return ledger


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    kills = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    directory = Path(tempfile.mkdtemp(prefix="penstock-trash-"))
    try:
        run(directory / "data", messages, seed, kills)
    except BaseException:
        print(f"the data directory stays: {directory}", file=sys.stderr)
        raise
    shutil.rmtree(directory)


if __name__ == "__main__":
    main()
