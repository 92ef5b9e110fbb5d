"""What every test gets: an audit table that can be emptied between tests, and a throttle without memory."""

import pytest

from admin_console.accounts.throttle import throttle


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: object) -> None:
    """Between tests the database is emptied, which the audit table forbids; test_audit proves that it does."""
    from django.db import connection

    with django_db_blocker.unblock(), connection.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("DROP TRIGGER IF EXISTS audit_row_is_never_removed")


@pytest.fixture(autouse=True)
def _forgiving_throttle() -> None:
    throttle.forget_all()
