"""The file of tokens: made and revoked by any process, whole after each failure, refused when damaged, never open."""

import errno
import json
import os
import stat
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from queue_engine.service.identity.loaded_tokens import LoadedTokens
from queue_engine.service.identity.token import TOPICS_MAX, Token, TokenError, TokenState, new_token
from queue_engine.service.identity.token_file import TOKENS_MAX, TokenFile, encode_used
from queue_engine.storage.disk.checked_line import encode_line
from queue_engine.vocabulary.errors import NewerFormatError, OutcomeUnknownError, StorageError
from queue_engine.vocabulary.permission import Permission
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError

NOW = 1_500_000_000_000


def create(file: TokenFile, name: str = "deploy", **options: Any) -> tuple[Token, str]:
    values: dict[str, Any] = {"permissions": ["publish"], "topics": [], "expires_ms": 0, "by": "ada", "now_ms": NOW}
    values |= options
    return file.create(name, values.pop("permissions"), values.pop("topics"), **values)


def test_a_token_is_kept_without_its_secret(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    assert file.read() is None
    token, secret = create(file, permissions=["consume", "publish"], topics=["orders.*", "logs"], expires_ms=NOW + 1)
    assert TokenFile(tmp_path).read() == (token,)
    assert token.permissions == (Permission.PUBLISH, Permission.CONSUME)
    assert (token.topics, token.created_by, token.expires_ms) == (("orders.*", "logs"), "ada", NOW + 1)
    assert token.fits(secret.encode())
    assert not token.fits(secret[:-1].encode())
    for path in tmp_path.iterdir():
        assert secret.rpartition("_")[2].encode() not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create(TokenFile(tmp_path))
    path = tmp_path / "tokens.json"
    path.chmod(0o664)
    LoadedTokens(TokenFile(tmp_path), ManualClock())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"{path} could be read or written by other accounts: its mode is 0600 now" in caplog.text
    caplog.clear()
    TokenFile(tmp_path).read()
    assert caplog.text == ""


def test_a_secret_has_256_random_bits_and_its_id(tmp_path: Path) -> None:
    token, secret = create(TokenFile(tmp_path))
    prefix, token_id, rest = secret.split("_")
    assert (prefix, token_id) == ("pst", token.id)
    assert len(bytes.fromhex(rest)) == 32


def test_a_token_allows_its_permissions_on_its_topics() -> None:
    token, _ = new_token("a", ["consume"], ["orders.*"], expires_ms=0, by="", now_ms=NOW)
    assert token.allows(Permission.CONSUME, "orders.eu", "billing")
    assert not token.allows(Permission.CONSUME, "order", "billing")
    assert not token.allows(Permission.CONSUME, "", "")
    assert not token.allows(Permission.PUBLISH, "orders.eu", "")
    everywhere, _ = new_token("a", ["administer"], [], expires_ms=0, by="", now_ms=NOW)
    assert everywhere.allows(Permission.ADMINISTER, "", "")


def test_revoking_keeps_the_row_and_is_refused_twice(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    first, _ = create(file)
    with pytest.raises(TokenError, match="there is a token deploy already"):
        create(file)
    assert file.revoke("deploy", by="bob", now_ms=NOW + 5).id == first.id
    (kept,) = file.read() or ()
    assert (kept.state(NOW + 5), kept.revoked_ms, kept.revoked_by) == (TokenState.REVOKED, NOW + 5, "bob")
    with pytest.raises(TokenError, match="there is no token deploy that is not revoked"):
        file.revoke("deploy", by="bob", now_ms=NOW + 6)
    second, _ = create(file)
    assert file.revoke(second.id, by="bob", now_ms=NOW + 7).id == second.id


def test_the_valid_one_of_a_name_is_revoked(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    expired, _ = create(file, expires_ms=NOW + 1)
    valid, _ = create(file, now_ms=NOW + 2)
    assert expired.state(NOW + 1) is TokenState.EXPIRED
    assert file.revoke("deploy", by="", now_ms=NOW + 3).id == valid.id
    assert file.revoke("deploy", by="", now_ms=NOW + 4).id == expired.id


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"name": ""}, "'' is no name of a token"),
        ({"name": "-x"}, "is no name of a token"),
        ({"name": "a\nb"}, "is no name of a token"),
        ({"name": "x" * 65}, "1 to 64 of letters"),
        ({"permissions": []}, "needs a permission: publish, consume, administer"),
        ({"permissions": ["own"]}, "'own' is no permission"),
        ({"topics": ["orders/eu"]}, "'orders/eu' is not a topic pattern"),
        ({"topics": [f"t{n}" for n in range(TOPICS_MAX + 1)]}, f"the most is {TOPICS_MAX}"),
        ({"expires_ms": NOW}, "would have expired already"),
    ],
)
def test_what_is_no_token_is_refused_and_changes_nothing(
    tmp_path: Path, changed: dict[str, Any], complaint: str
) -> None:
    file = TokenFile(tmp_path)
    with pytest.raises(TokenError, match=complaint):
        create(file, **changed)
    assert file.read() is None


def test_a_full_file_makes_room_of_what_lets_nobody_in(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    tokens = [new_token(f"t{n}", ["publish"], [], expires_ms=0, by="", now_ms=NOW)[0] for n in range(TOKENS_MAX)]
    file._write(tokens)
    with pytest.raises(TokenError, match=f"the most is {TOKENS_MAX}"):
        create(file)
    file.revoke("t7", by="", now_ms=NOW)
    file.revoke("t9", by="", now_ms=NOW)
    create(file)
    names = [token.name for token in file.read() or ()]
    assert len(names) == TOKENS_MAX
    assert "t7" not in names
    assert "t9" in names


def test_every_damaged_byte_is_refused(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    create(file)
    whole = Path(file.path).read_bytes()
    for at in range(len(whole) - 1):
        Path(file.path).write_bytes(whole[:at])
        with pytest.raises(StorageError, match="is damaged"):
            file.read()
        Path(file.path).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StorageError, match="is damaged"):
            file.read()


@pytest.mark.parametrize("content", [{"tokens": []}, {"version": 1}, {"version": 1, "tokens": [{"id": "x"}]}])
def test_a_right_checksum_on_wrong_content_is_refused(tmp_path: Path, content: dict[str, Any]) -> None:
    file = TokenFile(tmp_path)
    Path(file.path).write_bytes(encode_line(content))
    with pytest.raises(StorageError, match="is damaged"):
        file.read()


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    Path(file.path).write_bytes(encode_line({"version": 2, "tokens": []}))
    with pytest.raises(NewerFormatError):
        file.read()


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    file = TokenFile(tmp_path)
    os.symlink(tmp_path / "elsewhere", file.path)
    with pytest.raises(StorageError, match="symbolic link"):
        file.read()


@pytest.mark.parametrize("steps", range(5))
def test_a_process_that_dies_leaves_the_old_tokens_or_the_new_ones(tmp_path: Path, steps: int) -> None:
    token, _ = create(TokenFile(tmp_path))
    files = FaultyFiles()
    files.dies_after = steps
    with pytest.raises(ProcessDiedError) if steps < 4 else nullcontext():
        TokenFile(tmp_path, files).revoke("deploy", by="", now_ms=NOW + 1)
    files.abandon()
    (found,) = TokenFile(tmp_path).read() or ()
    assert found.id == token.id
    # The steps: the lock's file, the temporary file, its bytes, its name.
    assert found.revoked_ms == (NOW + 1 if steps == 4 else 0)
    if steps < 4:
        TokenFile(tmp_path).revoke("deploy", by="", now_ms=NOW + 2)  # no lock is left


@pytest.mark.parametrize(
    ("operation", "nth", "is_done"), [("write", 1, False), ("sync", 1, False), ("rename", 1, False), ("sync", 2, True)]
)
def test_a_disk_that_refuses_changes_nothing_or_says_that_it_is_unknown(
    tmp_path: Path, operation: str, nth: int, is_done: bool
) -> None:
    create(TokenFile(tmp_path))
    files = FaultyFiles()
    files.fail(operation, errno.ENOSPC, nth=nth)
    with pytest.raises(OutcomeUnknownError if is_done else StorageError, match="No space left"):
        TokenFile(tmp_path, files).revoke("deploy", by="", now_ms=NOW + 1)
    assert not files.open_fds
    (found,) = TokenFile(tmp_path).read() or ()
    assert found.revoked_ms == (NOW + 1 if is_done else 0)
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_many_processes_lose_no_token(tmp_path: Path) -> None:
    # Threads with files of their own: an flock is between descriptors, whoever has them.
    def make(number: int) -> None:
        for nth in range(5):
            create(TokenFile(tmp_path), f"t{number}.{nth}")

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(TokenFile(tmp_path).read() or ()) == 20


def test_times_of_use_are_no_truth(tmp_path: Path) -> None:
    file = TokenFile(tmp_path)
    assert file.used_ms() == {}
    Path(file.used_path).write_bytes(encode_used({"a": 5}))
    assert file.used_ms() == {"a": 5}
    Path(file.used_path).write_bytes(json.dumps({"used_ms": {"a": 6}}).encode())
    assert file.used_ms() == {}


def test_the_uses_of_tokens_that_made_room_for_others_are_forgotten(tmp_path: Path) -> None:
    """Else a program that makes a token for each of its runs fills the server's memory, and the file, in years."""
    file = TokenFile(tmp_path)
    token, secret = create(file)
    Path(file.used_path).write_bytes(encode_used({token.id: 5, "gone": 4}))
    known = LoadedTokens(file, ManualClock())
    assert known.used_ms == {token.id: 5}
    assert known.authorization_of(secret.encode()) is not None
    known.used_ms["gone later"] = 6
    create(file, "another")
    known.check()
    assert list(known.used_ms) == [token.id]
