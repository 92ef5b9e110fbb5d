"""Each audit row gets a hash that covers the row before it; the rows that are there get theirs now, in their order.

The database refuses `INSERT OR REPLACE` of a row, too, which fires no DELETE trigger, and rows that are not at the
end. It lets rows be removed up to the one that a row `remove_old_rows` names (admin_console/audit/ageing.py).
"""

import hashlib
import json

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_SELECT = """
SELECT id, act_id, phase, at_ms, actor, role, address, via, action, topic, channel, detail, reason, verdict, message,
counts FROM admin_console_auditrow WHERE id > %s ORDER BY id LIMIT 1000
"""
_UPDATE = "UPDATE admin_console_auditrow SET previous_hash = %s, hash = %s WHERE id = %s"

DROP = """
DROP TRIGGER IF EXISTS audit_row_is_never_changed;
DROP TRIGGER IF EXISTS audit_row_is_never_removed;
"""
CREATE = """
CREATE TRIGGER audit_row_is_never_changed BEFORE UPDATE ON admin_console_auditrow
BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END;
CREATE TRIGGER audit_row_is_never_removed BEFORE DELETE ON admin_console_auditrow
WHEN OLD.id > coalesce(
    (SELECT max(CAST(detail AS INTEGER)) FROM admin_console_auditrow
     WHERE action = 'remove_old_rows' AND via = 'server'), 0)
BEGIN SELECT RAISE(ABORT, 'audit rows are never removed'); END;
CREATE TRIGGER audit_row_is_never_replaced BEFORE INSERT ON admin_console_auditrow
WHEN EXISTS (SELECT 1 FROM admin_console_auditrow WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'audit rows are never changed'); END;
CREATE TRIGGER audit_row_is_added_at_the_end AFTER INSERT ON admin_console_auditrow
WHEN NEW.id < (SELECT max(id) FROM admin_console_auditrow)
BEGIN SELECT RAISE(ABORT, 'audit rows are added at the end only'); END;
"""


def chain(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """The form of admin_console/audit/chain.py, version 1, written out: it stays when that one changes."""
    previous, last_id = "0" * 64, 0
    with schema_editor.connection.cursor() as cursor:
        while True:
            cursor.execute(_SELECT, [last_id])
            rows = cursor.fetchall()
            if not rows:
                return
            hashes = []
            for last_id, *values in rows:
                content = ["penstock-audit-1", previous, *values[:-1], json.loads(values[-1])]
                text = json.dumps(content, separators=(",", ":"), sort_keys=True)
                found = hashlib.sha256(text.encode("ascii")).hexdigest()
                hashes.append((previous, found, last_id))
                previous = found
            cursor.executemany(_UPDATE, hashes)


class Migration(migrations.Migration):
    dependencies = [("admin_console", "0002_audit_is_append_only")]

    operations = [
        migrations.RunSQL(DROP),
        migrations.AddField("auditrow", "previous_hash", models.CharField(db_default="", default="", max_length=64)),
        migrations.AddField("auditrow", "hash", models.CharField(db_default="", default="", max_length=64)),
        migrations.RunPython(chain),
        migrations.RunSQL(CREATE),
    ]
