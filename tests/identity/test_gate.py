"""The gate: tokens that are made, revoked and expire while a server runs; --http-token; guessing."""

from pathlib import Path

import pytest

from queue_engine.service.identity.auth_servers import AuthServers
from queue_engine.service.identity.gate import Gate, Peer, SecretRefusedError
from queue_engine.service.identity.guesses import ADDRESSES_MAX, DELAY_S_MAX, FREE_GUESSES, Guesses
from queue_engine.service.identity.loaded_tokens import LoadedTokens
from queue_engine.service.identity.secret_file import secret_file
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.tls import replaceable
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError, StorageError
from queue_engine.vocabulary.permission import Permission
from tests.support.auth_server import AuthServer
from tests.support.clock import ManualClock


def create(file: TokenFile, clock: ManualClock, name: str = "deploy", *, valid_ms: int = 0) -> str:
    now_ms = clock.time_ns() // NS_PER_MS
    expires_ms = now_ms + valid_ms if valid_ms else 0
    return file.create(name, ["publish"], ["t*"], expires_ms=expires_ms, by="", now_ms=now_ms)[1]


def test_a_token_made_while_the_server_runs_lets_in_and_closes_the_door(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    gate = Gate(LoadedTokens(file, clock))
    assert (gate.is_enabled, gate.is_required, gate.is_required_by_http) == (False, False, False)
    secret = create(file, clock).encode()
    found = gate.find(secret)
    assert (gate.is_enabled, gate.is_required, gate.is_required_by_http) == (True, True, True)
    assert found is not None
    assert (found.identity, found.permission_count) == ("deploy", 1)
    assert found.may(Permission.PUBLISH, "t1")
    assert not found.may(Permission.PUBLISH, "other")
    assert gate.find(secret) is found, "all connections of a token share what it allows"


def test_a_revoked_token_ends_what_it_allowed_and_revoking_the_last_opens_nothing(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    secret = create(file, clock).encode()
    gate = Gate(LoadedTokens(file, clock))
    found = gate.find(secret)
    assert found is not None
    file.revoke("deploy", by="", now_ms=5)
    gate.check()
    assert found.end_reason == "the token deploy was revoked"
    assert not found.may(Permission.PUBLISH, "t1")
    assert gate.find(secret) is None
    assert gate.is_required
    assert Gate(LoadedTokens(file, clock)).is_required, "nor does the next start"


def test_an_expired_token_ends_what_it_allowed(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    secret = create(file, clock, valid_ms=1_000).encode()
    gate = Gate(LoadedTokens(file, clock))
    clock.advance(ms=999)
    gate.check()
    found = gate.find(secret)
    assert found is not None
    clock.advance(ms=1)
    assert gate.find(secret) is None
    gate.check()
    assert found.end_reason == "the token deploy has expired"


def test_forged_and_truncated_secrets_let_nobody_in(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    secret = create(file, clock)
    gate = Gate(LoadedTokens(file, clock))
    prefix, token_id, rest = secret.split("_")
    forged = [
        "",
        secret[:-1],
        secret + "0",
        secret.upper(),
        f"{prefix}_{token_id}_{'0' * 64}",
        f"{prefix}_{'0' * 12}_{rest}",
        rest,
        (file.read() or ())[0].hash,
        f" {secret}",
        f"{secret}\n",
    ]
    assert [one for one in forged if gate.find(one.encode()) is not None] == []
    assert gate.find(b"\xff" * 80) is None


def test_a_damaged_file_neither_lets_in_nor_throws_out(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    secret = create(file, clock).encode()
    tokens = LoadedTokens(file, clock)
    gate = Gate(tokens)
    whole = Path(file.path).read_bytes()
    Path(file.path).write_bytes(whole[:-4])
    gate.check()
    assert "is damaged" in tokens.complaint
    assert gate.find(secret) is not None
    assert gate.is_required
    with pytest.raises(StorageError, match="is damaged"):
        LoadedTokens(file, clock)
    Path(file.path).write_bytes(whole)
    gate.check()
    assert tokens.complaint == ""
    Path(file.path).unlink()
    gate.check()
    assert gate.find(secret) is None
    assert gate.is_required, "until the next start"


def test_anonymous_clients_are_let_in_on_purpose_alone(tmp_path: Path) -> None:
    clock, file = ManualClock(), TokenFile(tmp_path)
    secret = create(file, clock).encode()
    gate = Gate(LoadedTokens(file, clock), lets_anonymous=True)
    assert (gate.is_enabled, gate.is_required, gate.is_required_by_http) == (True, False, False)
    assert gate.find(secret) is not None


def test_the_http_token_is_one_with_all_rights_and_its_own_name() -> None:
    gate = Gate(http_token="s3cret", own_token="own")
    # It guards HTTP as ever; TCP stays open without tokens.
    assert (gate.is_enabled, gate.is_required, gate.is_required_by_http) == (True, False, True)
    found = gate.find(b"s3cret")
    assert found is not None
    assert found.identity == "http-token"
    assert found.may(Permission.ADMINISTER, "")
    assert found.holds(Permission.CONSUME)
    own = gate.find(b"own")
    assert own is not None
    assert own.identity == "pipeline"
    assert gate.find(b"s3cre") is None


async def test_a_secret_that_looks_like_a_token_is_shown_to_no_auth_server(tmp_path: Path) -> None:
    clock = ManualClock()
    with AuthServer() as server:
        servers = AuthServers((server.address,), clock, connect_timeout_ms=5_000, request_timeout_ms=20_000)
        gate = Gate(LoadedTokens(TokenFile(tmp_path), clock), servers=servers, guesses=Guesses(clock))
        assert gate.is_required
        assert not gate.is_required_by_http
        assert (await gate.request(b"word", Peer("192.0.2.1"))).identity == "deploy"
        with pytest.raises(SecretRefusedError, match="no such token"):
            await gate.request(b"pst_truncated", Peer("192.0.2.1"))
        assert server.secrets() == ["word"]
        await gate.close()
    assert gate.guesses is not None
    assert gate.guesses.counts == {"tcp": 1, "http": 0}


def test_guessing_is_slowed_by_address_and_counted() -> None:
    clock = ManualClock()
    guesses = Guesses(clock)
    delays = [guesses.note("192.0.2.1", "tcp") for _ in range(FREE_GUESSES + 12)]
    assert delays[:FREE_GUESSES] == [0] * FREE_GUESSES
    assert delays[FREE_GUESSES : FREE_GUESSES + 4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == DELAY_S_MAX
    assert guesses.note("192.0.2.2", "http") == 0
    assert guesses.counts == {"tcp": FREE_GUESSES + 12, "http": 1}
    clock.advance(ms=60_001)
    assert guesses.note("192.0.2.1", "tcp") == 0


def test_a_network_of_ipv6_is_one_address_and_memory_is_bounded() -> None:
    guesses = Guesses(ManualClock())
    for number in range(FREE_GUESSES):
        assert guesses.note(f"2001:db8:1:2::{number}", "tcp") == 0
    assert guesses.note("2001:db8:1:2:ffff::1", "tcp") > 0
    assert guesses.note("2001:db8:1:3::1", "tcp") == 0
    # A network whose name ends in zeros is written in many ways.
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8::ffff:1", "2001:db8:0:0:5::", "2001:db8:0:0:1:2:3:4"):
        assert guesses.note(address, "tcp") == 0
    assert guesses.note("2001:db8::3", "tcp") > 0
    for number in range(ADDRESSES_MAX + 10):
        guesses.note(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "tcp")
    assert len(guesses._of) == ADDRESSES_MAX


# The HTTP token's file.


def test_a_replaced_http_token_counts_and_the_old_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(replaceable, "LOOK_INTERVAL_NS", 0)
    path = tmp_path / "token"
    path.write_text("first \nsecond line\n")
    path.chmod(0o600)
    gate = Gate(http_token_file=secret_file("--http-token-file", str(path)))
    assert gate.is_required_by_http
    found = gate.find(b"first")
    assert found is not None
    assert found.identity == "http-token"
    assert gate.find(b"second line") is None
    path.write_text("newer\n")
    assert (gate.find(b"first"), gate.find(b"newer")) == (None, found)
    assert gate.complaints() == []
    path.write_text("\n")
    assert gate.find(b"newer") is found, "a broken file neither lets in nor throws out"
    assert gate.find(b"") is None
    assert gate.complaints() == [
        f"the secret of --http-token-file stays as it was: --http-token-file {path}: its first line is empty"
    ]
    path.unlink()
    assert gate.find(b"newer") is found
    path.write_text("again")
    path.chmod(0o644)
    assert gate.find(b"newer") is None
    assert gate.find(b"again") is found
    assert gate.complaints() == []
    assert f"--http-token-file {path} can be read or written by other accounts: chmod 600" in caplog.text
    assert "again" not in caplog.text.replace("read again", "")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "can't be read: No such file"),
        ("", ": its first line is empty"),
        ("x" * 5_000, "has more than 4096 bytes"),
    ],
    ids=["none", "empty", "long"],
)
def test_a_file_without_a_secret_stops_the_start(tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PenstockError, match=f"^--http-token-file {path}.*{sentence}"):
        secret_file("--http-token-file", str(path))
