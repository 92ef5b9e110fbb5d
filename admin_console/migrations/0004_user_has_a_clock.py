"""Each user has a clock: pages show times in the browser's zone, as they do for the users who are there, or in UTC."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("admin_console", "0003_audit_is_chained")]

    operations = [
        migrations.AddField(
            "user",
            "clock",
            models.CharField(
                choices=[("local", "Local"), ("utc", "UTC")], db_default="local", default="local", max_length=8
            ),
        ),
    ]
