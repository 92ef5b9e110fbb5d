"""The table of what each kind of topic can do is what the engine does."""

from pathlib import Path

import pytest

from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.vocabulary.acts.act import Kinds
from queue_engine.vocabulary.acts.parameters import START
from queue_engine.vocabulary.acts.table import ACTS, USES, kinds_of, why_not
from queue_engine.vocabulary.errors import InvalidStorageError
from queue_engine.vocabulary.ticket import Ticket
from tests.support.clock import ManualClock
from tests.support.engine import make_engine

BATCH_KEY = b"0123456789abcdef"


def test_a_reason_names_the_topic_and_its_kind() -> None:
    assert why_not("rewind_channel", "log", "orders", "billing") == ""
    assert (
        why_not("rewind_channel", "diskqueue", "orders", "billing")
        == "topic orders has storage kind diskqueue: only the log can be read and rewound"
    )


def test_what_is_ephemeral_has_a_reason_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(USES, "keep", Kinds(ephemeral="it leaves nothing on the disk"))
    assert why_not("keep", "log", "orders", "billing") == ""
    assert (
        why_not("keep", "log", "orders", "tmp#ephemeral")
        == "orders/tmp#ephemeral is ephemeral: it leaves nothing on the disk"
    )
    assert why_not("keep", "diskqueue", "tmp#ephemeral").startswith("tmp#ephemeral is ephemeral")


def refusal_of(engine: Engine, act: str) -> str:
    """Does `act` to the topic `old`, of kind diskqueue; returns the text of the refusal."""
    calls = {
        "publish_keyed": lambda: engine.log.publish_keyed("old", b"x", b"k"),
        "write_batch": lambda: engine.log.write_batch("old", [b"x"], batch_key=BATCH_KEY),
        "rewind_channel": lambda: engine.acts.rewind_channel("old", "c", target=Target(word=START))[1],
        "read_messages": lambda: engine.log.read_messages("old", Target(word=START), 1),
        "find_key": lambda: engine.log.find_key("old", b"k", 1),
        "lease_messages": lambda: engine.log.lease("old", 0, ttl_ms=1_000),
        "archive_on": lambda: engine.cursors.create("old", cursor="archive"),
        "archive_off": lambda: engine.cursors.delete("old", cursor="archive"),
        "archive_again": lambda: engine.cursors.restart("old", cursor="archive"),
        "restore_trash": lambda: engine.trash.restore_trash("old", trash=1)[1],
        "delete_trash": lambda: engine.trash.delete_trash("old", trash=1)[1],
        "create_cursor": lambda: engine.cursors.create("old", cursor="a"),
        "move_cursor": lambda: engine.cursors.move("old", cursor="a", number=1, offset=0),
        "set_max_attempts": lambda: engine.quarantine.set_max_attempts("old", "c", max_attempts=3)[1],
        "redrive_channel": lambda: engine.quarantine.redrive_channel("old", "c")[1],
        "cancel_redrive": lambda: engine.quarantine.cancel_redrive("old", "c")[1],
        "delete_cursor": lambda: engine.cursors.delete("old", cursor="a"),
    }
    try:
        answer = calls[act]()
    except InvalidStorageError as exc:
        return str(exc)
    assert isinstance(answer, Ticket), act
    assert isinstance(answer.error, InvalidStorageError), act
    return str(answer.error)


def test_the_engine_refuses_with_the_reasons_of_the_table(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, ManualClock())
    engine.open()
    engine.acts.create_topic("old", storage="diskqueue")
    engine.acts.create_channel("old", "c")
    refused = [name for name in (*ACTS, *USES) if kinds_of(name).diskqueue and not name.endswith("_messages")]
    for act in [*refused, "read_messages", "lease_messages"]:
        assert refusal_of(engine, act) == why_not(act, "diskqueue", "old"), act
    engine.close()
