"""The detail of an audit row has a replay's whole request: SQLite takes texts of any length, so no table changes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("admin_console", "0004_user_has_a_clock")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField("auditrow", "detail", models.CharField(blank=True, max_length=2_700))
            ]
        ),
    ]
