"""A save of a session writes the keys that its request changed, and waits for no save of another session."""

import threading

import pytest
from django.contrib.sessions.backends import db

from admin_console.accounts.waiting_sessions import SessionStore
from tests.support.waiting import wait_for


@pytest.mark.django_db
def test_a_key_that_is_removed_after_the_log_in_is_gone() -> None:
    session = SessionStore()
    session["draft"] = "orders"
    session.create()
    del session["draft"]
    session["seen_s"] = 7
    session.save()
    assert SessionStore(session.session_key).load() == {"seen_s": 7}


def test_a_save_that_waits_for_the_database_delays_no_other_session(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str | None] = []
    goes_on, begun = threading.Event(), threading.Event()

    def write(session: SessionStore, must_create: bool = False) -> None:
        if session.session_key == "first-session":
            begun.set()
            assert goes_on.wait(60)
        written.append(session.session_key)

    monkeypatch.setattr(db.SessionStore, "load", lambda session: {})
    monkeypatch.setattr(db.SessionStore, "save", write)
    # Sessions may share a lock: one of these does not share the first one's.
    others = [f"other-session-{number}" for number in range(20)]
    threads = [threading.Thread(target=SessionStore(key).save) for key in ("first-session", *others)]
    try:
        threads[0].start()
        assert begun.wait(30)
        for thread in threads[1:]:
            thread.start()
        wait_for("another session's save", lambda: written)
    finally:
        goes_on.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
    assert {*written} == {"first-session", *others}
