"""The file of acts: every line durable, numbered and checked; torn, damaged, full and refused."""

import errno
import os
import stat
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from crc32c import crc32c

from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.service.act_file.act_file import FILES_MAX, NAME, ActFile
from queue_engine.service.act_file.act_reader import has_entries, read_page
from queue_engine.service.act_file.act_writer import WAITING_MAX_OF_ACTS, ActWriter
from queue_engine.service.act_file.line import decode_line, encode_line, shortened
from queue_engine.service.act_file.repeated_acts import FAILURE
from queue_engine.storage.disk.background import InlineBackground
from queue_engine.storage.disk.files import Files
from tests.support.clock import ManualClock
from tests.support.disks.files import FaultyFiles, ProcessDiedError
from tests.support.stores.background import HeldBackground


def entry(number: int) -> ActRecord:
    done = Outcome(depth=3)
    return ActRecord("empty_topic", f"t{number}", "", "192.0.2.1:5", "", done, actor="deploy", at_ms=number)


def act(action: str = "empty_topic", *, act_id: str = "", error: str = "", topic: str = "t") -> ActRecord:
    outcome = None if error else Outcome(depth=7)
    return ActRecord(action, topic, "", "192.0.2.1:5", error, outcome, act_id=act_id, actor="deploy")


def numbers(directory: Path, count: int = 1_000, before: int = 0) -> list[int | None]:
    return [one.number for one in read_page(directory, count=count, before=before).acts]


def test_lines_are_read_newest_first_and_survive_a_restart(tmp_path: Path) -> None:
    assert not has_entries(tmp_path)
    for start in (1, 4):
        file = ActFile(str(tmp_path), Files())
        file.append([entry(n) for n in range(start, start + 3)])
        file.close()
    assert has_entries(tmp_path)
    page = read_page(tmp_path, count=4)
    assert [(one.number, one.act) for one in page.acts] == [(n, entry(n)) for n in (6, 5, 4, 3)]
    assert page.has_older
    assert numbers(tmp_path, before=3) == [2, 1]
    assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600


def test_the_line_has_the_documented_form() -> None:
    line = encode_line(7, entry(5))
    assert line.endswith(b"\n")
    assert line[8:9] == b" "
    assert decode_line(line[:-1]) == (7, entry(5))
    assert b'"times"' not in line
    assert [
        at for at in range(len(line) - 1) if decode_line(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 : -1])
    ] == []


ACT = ActRecord("", "orders", "", "192.0.2.1:5", "", None, actor="deploy", at_ms=1_700_000_000_000)
EMPTIED = replace(
    ACT,
    action="empty_channel",
    channel="billing",
    outcome=Outcome(depth=7, in_flight=2, trash=3),
    act_id="5f1c",
    details={"reason": "drill"},
)


RESULT_LINE = (
    b'10d0093b {"n":7,"at_ms":1700000000000,"phase":"result","act":"5f1c","action":"empty_channel",'
    b'"topic":"orders","channel":"billing","address":"192.0.2.1:5","via":"http","actor":"deploy","error":"","counts":{"depth":7,'
    b'"in_flight":2,"trash":3},"created":false,"details":{"reason":"drill"}}'
)
INTENT_LINE = (
    b'b6589f9a {"n":9,"at_ms":1700000000002,"phase":"intent","act":"5f1d","action":"delete_topic",'
    b'"topic":"orders","channel":"","address":"192.0.2.1:5","via":"http","actor":"deploy","error":"","counts":{},"details":{}}'
)
EVENT_LINE = (
    b'65c2f005 {"n":10,"at_ms":1700000000003,"phase":"event","act":"","action":'
    b'"read_messages","topic":"orders","channel":"","address":"192.0.2.1:5","via":"http","actor":"",'
    b'"error":"NOT_ALLOWED: no","counts":{},'
    b'"details":{},"times":12}'
)
INTENT = replace(ACT, action="delete_topic", act_id="5f1d", is_intent=True, at_ms=1_700_000_000_002)
EVENT = replace(ACT, action="read_messages", error="NOT_ALLOWED: no", times=12, actor="", at_ms=1_700_000_000_003)


@pytest.mark.parametrize(
    ("line", "act"),
    [(RESULT_LINE, EMPTIED), (INTENT_LINE, INTENT), (EVENT_LINE, EVENT)],
    ids=["result", "intent", "event"],
)
def test_lines_of_897736b_are_read_and_written_as_they_were(line: bytes, act: ActRecord) -> None:
    decoded = decode_line(line)
    assert decoded is not None
    assert decoded[1] == act
    assert encode_line(*decoded) == line + b"\n"


def test_a_line_without_created_stands_for_an_act_that_changed_something() -> None:
    decoded = decode_line(
        b'00e10324 {"n":8,"at_ms":1700000000001,"phase":"event","act":"","action":"create_topic","topic":"orders",'
        b'"channel":"","address":"192.0.2.1:5","via":"http","actor":"","error":"","counts":{},"details":{}}'
    )
    assert decoded is not None
    assert decoded[1].outcome == Outcome(created=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, None) for name in ("action", "topic", "channel", "address", "via", "act", "actor", "error")],
        *[(name, value) for name in ("n", "at_ms", "times") for value in ("7", 1.5, True, 1 << 63)],
        ("n", 0),
        ("details", None),
        ("details", [1]),
        ("counts", {"depth": "7"}),
        ("act", ["a"]),
    ],
)
def test_a_line_with_a_value_of_another_type_is_damaged(name: str, value: object, tmp_path: Path) -> None:
    whole = encode_line(2, entry(2))
    content = orjson.dumps(orjson.loads(whole[9:]) | {name: value})
    assert decode_line(whole[:-1]) is not None
    (tmp_path / NAME).write_bytes(
        encode_line(1, entry(1)) + b"%08x %s\n" % (crc32c(content), content) + encode_line(3, entry(3))
    )
    assert numbers(tmp_path) == [3, None, 1]


def test_a_torn_tail_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    # The torn line is longer than the next one, which would not cover it.
    file.append([entry(1), replace(entry(2), error="e" * 200, outcome=None)])
    file.close()
    whole = (tmp_path / NAME).read_bytes()
    end = len(encode_line(1, entry(1)))
    for at in range(end, len(whole), 3):
        (tmp_path / NAME).write_bytes(whole[:at])
        file = ActFile(str(tmp_path), Files())
        file.append([entry(9)])
        file.close()
        found = read_page(tmp_path, count=9)
        assert [(one.number, one.act) for one in found.acts] == [(2, entry(9)), (1, entry(1))]
        assert os.listdir(tmp_path) == [NAME]
        assert (tmp_path / NAME).stat().st_size == end + len(encode_line(2, entry(9)))


def test_damage_in_the_middle_stays_and_shows(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    file.append([entry(n) for n in (1, 2, 3)])
    file.close()
    whole = (tmp_path / NAME).read_bytes()
    at = len(whole) // 2
    (tmp_path / NAME).write_bytes(whole[:at] + b"X" + whole[at + 1 :])
    file = ActFile(str(tmp_path), Files())
    file.append([entry(4)])
    file.close()
    assert numbers(tmp_path) == [4, 3, None, 1]


def test_a_damaged_end_is_kept_aside(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files())
    file.append([entry(n) for n in (1, 2, 3)])
    file.close()
    first = len(encode_line(1, entry(1)))
    whole = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(whole[:first] + bytes(byte ^ 1 if byte != 10 else 10 for byte in whole[first:]))
    file = ActFile(str(tmp_path), Files())
    file.append([entry(4)])
    file.close()
    assert sorted(os.listdir(tmp_path)) == ["api-audit.000000000001.log", NAME]
    assert numbers(tmp_path) == [2, None, None, 1]


def test_full_files_get_their_number_and_the_oldest_go(tmp_path: Path) -> None:
    file = ActFile(str(tmp_path), Files(), file_bytes_max=1)
    for number in range(1, FILES_MAX + 5):
        file.append([entry(number)])
    file.close()
    assert len(os.listdir(tmp_path)) == FILES_MAX + 1
    assert numbers(tmp_path) == list(range(FILES_MAX + 4, 3, -1))
    again = ActFile(str(tmp_path), Files(), file_bytes_max=1)
    again.append([entry(99)])
    again.close()
    assert numbers(tmp_path)[0] == FILES_MAX + 5


@pytest.mark.parametrize("steps", range(9))
def test_a_process_that_dies_leaves_all_that_was_acknowledged(tmp_path: Path, steps: int) -> None:
    files = FaultyFiles()
    file = ActFile(str(tmp_path), files, file_bytes_max=300)
    acknowledged = 0
    files.dies_after = steps
    try:
        for number in range(1, 6):
            file.append([entry(number)])
            acknowledged = number
    except ProcessDiedError:
        pass
    files.abandon()
    again = ActFile(str(tmp_path), Files(), file_bytes_max=300)
    again.append([entry(0)])
    again.close()
    found = [one.act for one in read_page(tmp_path, count=99).acts]
    assert None not in found
    kept = [one.at_ms for one in reversed(found) if one is not None]
    assert kept[-1] == 0
    assert kept[:acknowledged] == list(range(1, acknowledged + 1))
    assert len(kept) - 1 in (acknowledged, acknowledged + 1)
    assert numbers(tmp_path) == list(range(len(kept), 0, -1))


@pytest.mark.parametrize("operation", ["write", "sync_data", "create", "sync"])
def test_a_refused_line_is_written_once_when_the_disk_is_well(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    file = ActFile(str(tmp_path), files)
    files.fail(operation, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        file.append([entry(1)])
    file.append([entry(1)])
    file.append([entry(2)])
    file.close()
    assert numbers(tmp_path) == [2, 1]
    assert not files.open_fds


def writer(directory: Path, background: HeldBackground | InlineBackground, files: Files | None = None) -> ActWriter:
    return ActWriter(ActFile(str(directory), files or Files()), background, ManualClock())


def test_an_act_begins_once_its_line_is_on_the_disk(tmp_path: Path) -> None:
    background = HeldBackground()
    acts = writer(tmp_path, background)
    begun: list[str] = []
    acts.begin(replace(act(act_id="a"), outcome=None, is_intent=True), lambda is_kept: begun.append(f"a {is_kept}"))
    acts.begin(replace(act(act_id="b"), outcome=None, is_intent=True), lambda is_kept: begun.append(f"b {is_kept}"))
    assert begun == []
    background.work()
    background.answer()
    assert begun == ["a True"]
    assert [one.act.act_id for one in read_page(tmp_path, count=9).acts if one.act] == ["a"]
    background.finish()
    assert begun == ["a True", "b True"]
    acts.tell(act(act_id="a"))
    background.finish()
    found = [one.act for one in read_page(tmp_path, count=9).acts]
    # An intent with a result is one line of the page.
    assert [(one.is_intent, one.act_id, one.outcome) for one in found if one is not None] == [
        (False, "a", Outcome(depth=7)),
        (True, "b", None),
    ]
    acts.close()


def test_while_the_disk_refuses_acts_go_on_until_memory_is_full(tmp_path: Path) -> None:
    files = FaultyFiles()
    acts = writer(tmp_path, InlineBackground(), files)
    files.fail("write", errno.ENOSPC, count=10**9)
    begun: list[bool] = []
    for number in range(WAITING_MAX_OF_ACTS):
        acts.begin(act(act_id=f"{number}"), begun.append)
    assert acts.error
    assert begun == [True] * WAITING_MAX_OF_ACTS
    assert not acts.has_room
    acts.begin(act(act_id="one too many"), begun.append)
    assert begun[-1] is False
    files.heal()
    acts.look()
    assert acts.error == ""
    assert acts.has_room
    assert len(numbers(tmp_path, count=20_000)) == WAITING_MAX_OF_ACTS
    acts.close()


def test_what_an_address_repeats_is_counted(tmp_path: Path) -> None:
    acts = writer(tmp_path, InlineBackground())
    for _ in range(FAILURE.rows_at_once + 1_000):
        acts.tell(act(error="TOKEN_REQUIRED: no"))
    for _ in range(50):
        acts.tell(act("read_messages"))
    acts.tell(act("pause_topic"))
    acts.tell(act("pause_topic"))
    acts.close()
    found = [one.act for one in reversed(read_page(tmp_path, count=99).acts) if one.act]
    assert [(one.action, bool(one.error), one.times) for one in found] == [
        *[("empty_topic", True, 1)] * FAILURE.rows_at_once,
        ("read_messages", False, 1),
        *[("pause_topic", False, 1)] * 2,
        ("empty_topic", True, 1_000),
        ("read_messages", False, 49),
    ]


def test_counted_acts_of_several_tokens_are_of_none(tmp_path: Path) -> None:
    acts = writer(tmp_path, InlineBackground())
    for topic, actors in (
        ("a", ["deploy"] * 3),
        ("b", ["deploy", "backup", "deploy"]),
        ("c", ["deploy", "", "deploy"]),
    ):
        for actor in actors:
            acts.tell(replace(act("read_messages", topic=topic), actor=actor))
    acts.close()
    found = [one.act for one in reversed(read_page(tmp_path, count=99).acts) if one.act]
    assert [(one.topic, one.actor) for one in found if one.times == 2] == [("a", "deploy"), ("b", ""), ("c", "")]


def test_counted_acts_name_the_user_of_a_claim_where_all_claim_him(tmp_path: Path) -> None:
    acts = writer(tmp_path, InlineBackground())
    claims = {
        "a": ["", "alice", "alice", "alice"],
        "b": ["alice", "bob", "alice", "bob"],
        "c": ["alice", "alice", "", "alice"],
    }
    for topic, users in claims.items():
        for user in users:
            acts.tell(replace(act("read_messages", topic=topic), actor="console", on_behalf_of=user))
    for actor in ("console", "console", "backup", "console"):
        acts.tell(replace(act("read_messages", topic="d"), actor=actor, on_behalf_of="alice"))
    acts.close()
    found = [one.act for one in reversed(read_page(tmp_path, count=99).acts) if one.act]
    assert [(one.topic, one.actor, one.on_behalf_of) for one in found if one.times == 3] == [
        ("a", "console", "alice"),
        ("b", "console", ""),
        ("c", "console", ""),
        ("d", "", ""),
    ]


def test_a_stop_writes_each_line_once(tmp_path: Path) -> None:
    """The worker has begun nothing yet, and does its jobs when all is closed."""
    background = HeldBackground()
    acts = writer(tmp_path, background)
    for topic in ("a", "b"):
        acts.tell(act("read_messages", topic=topic))
        acts.tell(act("read_messages", topic=topic))
    acts.close()
    background.finish()
    found = [one.act for one in reversed(read_page(tmp_path, count=99).acts) if one.act]
    assert [one.topic for one in found] == ["a", "b", "a", "b"]
    assert numbers(tmp_path) == [4, 3, 2, 1]


def test_a_line_says_whether_the_act_created_anything() -> None:
    for created in (True, False):
        made = shortened(ActRecord("create_topic", "t", "", "a", "", Outcome(created=created)), 1)
        assert decode_line(encode_line(1, made)[:-1]) == (1, made)
    refused = shortened(ActRecord("create_topic", "t", "", "a", "no", None), 1)
    assert b"created" not in encode_line(1, refused)


def test_long_texts_are_cut() -> None:
    long = ActRecord("x" * 900, "t", "c", "a", "e" * 9_000, None, details={"reason": "r" * 900, "n": 5})
    made = shortened(long, 1)
    assert (len(made.action), len(made.error), len(made.details["reason"]), made.details["n"]) == (500, 500, 500, 5)
