"""The database itself refuses to change or remove an audit row."""

from django.db import migrations

TABLE = "admin_console_auditrow"

CREATE = f"""
CREATE TRIGGER audit_row_is_never_changed BEFORE UPDATE ON {TABLE}
BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END;
CREATE TRIGGER audit_row_is_never_removed BEFORE DELETE ON {TABLE}
BEGIN SELECT RAISE(ABORT, 'audit rows are never removed'); END;
"""
DROP = "DROP TRIGGER audit_row_is_never_changed; DROP TRIGGER audit_row_is_never_removed;"


class Migration(migrations.Migration):
    dependencies = [("admin_console", "0001_accounts_and_audit")]

    operations = [migrations.RunSQL(CREATE, DROP)]
