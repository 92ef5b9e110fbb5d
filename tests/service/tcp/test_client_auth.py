"""AUTH on a connection: what it may do before, with and after its authorization, with nsqd's errors."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from queue_engine.service.identity.auth_servers import SECRET_BYTES_MAX
from queue_engine.service.identity.authorization import Authorization
from queue_engine.service.identity.gate import Gate, Peer, SecretRefusedError
from queue_engine.vocabulary.permission import Permission
from tests.service.tcp.session_bench import Bench, dpub, pub
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import sized

AUTH = b"AUTH\n" + sized(b"secret")
ANSWER = json.dumps({"identity": "deploy", "identity_url": "", "permission_count": 1}, separators=(",", ":"))


@dataclass
class OneTopic:
    """Allows some of what can be done, on one topic and its channel "ch"."""

    topic: str
    permissions: tuple[Permission, ...] = tuple(Permission)

    def allows(self, permission: Permission, topic: str, channel: str) -> bool:
        return permission in self.permissions and topic == self.topic and channel in ("", "ch")


class HeldGate(Gate):
    """A gate that answers a question when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_enabled = self.is_required = True
        self.asked: list[bytes] = []
        self.peers: list[Peer] = []
        self.answers: asyncio.Queue[Authorization | Exception] = asyncio.Queue()

    async def request(self, secret: bytes, peer: Peer) -> Authorization:
        self.asked.append(secret)
        self.peers.append(peer)
        answer = await self.answers.get()
        if isinstance(answer, Exception):
            raise answer
        return answer


def deploy(topic: str = "t", ends_ns: int | None = None) -> Authorization:
    return Authorization("deploy", [OneTopic(topic)], ends_ns=ends_ns)


@dataclass
class Guarded:
    bench: Bench
    gate: HeldGate

    def client(self) -> MemorySession:
        return MemorySession(self.bench.engine, self.bench.clock, self.bench.turns, gate=self.gate)

    async def settle(self, session: MemorySession) -> None:
        """What the gate has answered is done and written."""
        for _ in range(3):
            await asyncio.sleep(0)
        session.turn()


@pytest.fixture
async def guarded(tmp_path: Path) -> Guarded:
    guarded = Guarded(Bench(tmp_path), HeldGate())
    for topic in ("t", "other"):
        guarded.bench.known_topic(topic)
    return guarded


def complete(guarded: Guarded, session: MemorySession) -> None:
    for store in guarded.bench.stores.values():
        while store.pending:
            store.complete()
    session.turn()


async def authorized(guarded: Guarded, answer: Authorization) -> MemorySession:
    session = guarded.client()
    session.send(AUTH)
    guarded.gate.answers.put_nowait(answer)
    await guarded.settle(session)
    assert session.frames == [ANSWER]
    return session


@pytest.mark.parametrize(
    ("command", "verb"),
    [(pub("t", b"m"), "PUB"), (dpub("t", b"m"), "DPUB"), (b"MPUB t\n", "MPUB"), (b"SUB t ch\n", "SUB")],
)
async def test_without_auth_nothing_can_be_done(guarded: Guarded, command: bytes, verb: str) -> None:
    session = guarded.client()
    session.send(command)
    session.turn()
    assert session.frames == [f"E_AUTH_FIRST AUTH required before {verb}"]
    assert session.transport.is_closed
    assert not guarded.bench.stores["t"].pending


async def test_the_secret_is_asked_for_and_answered_as_nsqd_does(guarded: Guarded) -> None:
    await authorized(guarded, deploy())
    assert guarded.gate.asked == [b"secret"]
    assert guarded.gate.peers == [Peer("192.0.2.1")]


async def test_the_connection_reads_nothing_until_the_answer_comes(guarded: Guarded) -> None:
    session, other = guarded.client(), guarded.client()
    session.send(AUTH + pub("t", b"one") + pub("t", b"two")[:7])
    await guarded.settle(session)
    assert not session.transport.is_reading
    assert session.frames == []
    # It owes nothing, however long that takes; and other connections go on.
    session.check_after(3_600_000)
    assert not session.transport.is_closed
    other.send(b"IDENTIFY\n" + sized(b"{}"))
    other.turn()
    assert other.frames == ["OK"]
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(session)
    assert session.transport.is_reading
    session.send(pub("t", b"two")[7:])
    session.turn()
    complete(guarded, session)
    assert session.frames == ["_heartbeat_", ANSWER, "OK", "OK"]


async def test_an_end_that_is_read_with_auth_waits_for_the_answers(guarded: Guarded) -> None:
    """TLS hands on a client's last commands and its end in one read."""
    session = guarded.client()
    session.send(AUTH + pub("t", b"one"))
    assert session.session.eof_received()
    await guarded.settle(session)
    assert not session.transport.is_closed
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(session)
    complete(guarded, session)
    assert session.frames == [ANSWER, "OK"]
    assert session.transport.is_closed


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (pub("other", b"m"), 'AUTH failed for PUB on "other" ""'),
        (dpub("other", b"m"), 'AUTH failed for DPUB on "other" ""'),
        (b"MPUB other\n", 'AUTH failed for MPUB on "other" ""'),
        (b"SUB other ch\n", 'AUTH failed for SUB on "other" "ch"'),
        (b"SUB t chan\n", 'AUTH failed for SUB on "t" "chan"'),
    ],
)
async def test_what_is_not_allowed_is_refused(guarded: Guarded, command: bytes, error: str) -> None:
    session = await authorized(guarded, deploy())
    session.send(command)
    session.turn()
    assert session.frames == [ANSWER, f"E_UNAUTHORIZED {error}"]
    assert session.transport.is_closed


async def test_each_pub_is_checked_also_when_a_client_waits_for_each_ok(guarded: Guarded) -> None:
    # Another connection has published there, so the parser knows the line, and takes the whole PUB at once.
    other = await authorized(guarded, deploy("other"))
    session = await authorized(guarded, deploy())
    for one in (other, session):
        topic = "other" if one is other else "t"
        for _ in range(3):
            one.send(pub(topic, b"m"))
            one.turn()
            complete(guarded, one)
    assert session.frames == [ANSWER, "OK", "OK", "OK"]
    session.send(pub("other", b"m"))
    session.turn()
    assert session.frames[-1] == 'E_UNAUTHORIZED AUTH failed for PUB on "other" ""'


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (SecretRefusedError("http://10.0.0.9 answered 403"), "E_AUTH_FAILED AUTH failed"),
        (Authorization("nobody", []), "E_UNAUTHORIZED AUTH no authorizations found"),
        (ZeroDivisionError(), "E_AUTH_ERROR AUTH error: the server failed at this; its log has the error"),
    ],
)
async def test_a_refused_secret_ends_the_connection(
    guarded: Guarded, answer: Authorization | Exception, error: str
) -> None:
    session = guarded.client()
    session.send(AUTH + pub("t", b"never read"))
    guarded.gate.answers.put_nowait(answer)  # type: ignore[arg-type]
    await guarded.settle(session)
    assert session.frames == [error]
    assert session.transport.is_closed
    assert not guarded.bench.stores["t"].pending


async def test_of_a_secret_that_is_too_long_no_more_is_kept_than_shows_it(guarded: Guarded) -> None:
    session = guarded.client()
    session.send(b"AUTH\n" + sized(b"x" * (1 << 20)))
    await guarded.settle(session)
    assert guarded.gate.asked == [b"x" * (SECRET_BYTES_MAX + 1)]


async def test_a_second_auth_is_refused(guarded: Guarded) -> None:
    session = await authorized(guarded, deploy())
    session.send(AUTH)
    session.turn()
    assert session.frames[1:] == ["E_INVALID AUTH already set"]


async def test_without_a_gate_auth_is_disabled(guarded: Guarded) -> None:
    guarded.gate.is_enabled = guarded.gate.is_required = False
    session = guarded.client()
    session.send(AUTH)
    session.turn()
    assert session.frames == ["E_AUTH_DISABLED AUTH disabled"]


async def test_rights_that_expire_are_asked_for_anew_with_the_next_command(guarded: Guarded) -> None:
    ends_ns = guarded.bench.clock.monotonic_ns() + 1_000_000_000
    session = await authorized(guarded, deploy(ends_ns=ends_ns))
    guarded.bench.clock.advance(ms=999)
    session.send(pub("t", b"one"))
    session.turn()
    complete(guarded, session)
    assert guarded.gate.asked == [b"secret"]
    guarded.bench.clock.advance(ms=1)
    session.send(pub("t", b"two"))
    await guarded.settle(session)
    assert guarded.gate.asked == [b"secret", b"secret"]
    assert not session.transport.is_reading
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(session)
    complete(guarded, session)
    assert session.frames == [ANSWER, "OK", "OK"]
    assert len(guarded.gate.asked) == 2


async def test_a_right_that_the_new_answer_takes_away_ends_the_connection(guarded: Guarded) -> None:
    session = await authorized(guarded, deploy(ends_ns=guarded.bench.clock.monotonic_ns()))
    session.send(b"MPUB t\n" + sized(b"\0\0\0\1" + sized(b"m")))
    guarded.gate.answers.put_nowait(deploy("other"))
    await guarded.settle(session)
    assert session.frames == [ANSWER, 'E_UNAUTHORIZED AUTH failed for MPUB on "t" ""']
    assert not guarded.bench.stores["t"].pending


async def test_an_authorization_that_ends_closes_the_connection_within_a_check(guarded: Guarded) -> None:
    authorization = deploy()
    session = await authorized(guarded, authorization)
    session.check_after(200)
    assert not session.transport.is_closed
    authorization.end("the token deploy was revoked")
    session.check_after(200)
    session.turn()
    assert session.frames == [ANSWER, "E_UNAUTHORIZED AUTH the token deploy was revoked"]
    assert session.transport.is_closed


async def test_what_becomes_required_ends_consumers_that_have_none(guarded: Guarded) -> None:
    guarded.gate.is_required = False
    consumer, publisher = guarded.client(), guarded.client()
    consumer.send(b"SUB t ch\n")
    guarded.bench.background.finish()
    publisher.send(pub("t", b"one"))
    publisher.turn()
    complete(guarded, publisher)
    assert publisher.frames == ["OK"]
    guarded.gate.is_required = True
    for session in (consumer, publisher):
        session.check_after(200)
        session.turn()
    assert consumer.frames == ["OK", "E_AUTH_FIRST AUTH required before SUB"]
    assert not publisher.transport.is_closed
    publisher.send(pub("t", b"two"))
    publisher.turn()
    assert publisher.frames == ["OK", "E_AUTH_FIRST AUTH required before PUB"]


async def test_a_client_that_leaves_ends_its_question(guarded: Guarded) -> None:
    session = guarded.client()
    session.send(AUTH)
    await guarded.settle(session)
    session.leave()
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(session)
    assert guarded.gate.answers.qsize() == 1  # nobody waits for it any more
    assert session.frames == []


async def test_a_client_that_sends_nothing_more_gets_its_answers(guarded: Guarded) -> None:
    session = guarded.client()
    session.send(AUTH + pub("t", b"m"))
    session.session.eof_received()  # inside TLS the end may come with what was sent before it
    await guarded.settle(session)
    assert not session.transport.is_closed
    guarded.gate.answers.put_nowait(deploy())
    await guarded.settle(session)
    complete(guarded, session)
    assert session.frames == [ANSWER, "OK"]
    assert session.transport.is_closed


async def test_the_figures_name_the_identity(guarded: Guarded) -> None:
    session = await authorized(guarded, Authorization("deploy", [OneTopic("t")], identity_url=""))
    session.send(pub("t", b"m"))
    session.turn()
    complete(guarded, session)
    producers = guarded.bench.engine.stats.now().producers
    assert [(one.authed, one.auth_identity, one.auth_identity_url) for one in producers] == [(True, "deploy", "")]


async def test_identify_says_that_auth_is_required(guarded: Guarded) -> None:
    session = guarded.client()
    session.send(b"IDENTIFY\n" + sized(b'{"feature_negotiation":true}'))
    session.turn()
    assert json.loads(session.frames[0])["auth_required"] is True
