"""The console as a Django app. Nothing starts here: only `serve` starts an engine."""

from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in


class ConsoleConfig(AppConfig):
    """All tables of the console belong to one app."""

    name = "admin_console"
    label = "admin_console"
    verbose_name = "Penstock"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Imported here: it needs the tables' classes.
        from admin_console.accounts.last_login import note_last_login

        # Under the name of Django's own receiver, which connects later and is then left out.
        user_logged_in.connect(note_last_login, dispatch_uid="update_last_login")
