"""The console as a Django app. Nothing starts here: only `serve` starts an engine."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """All tables of the console belong to one app."""

    name = "admin_console"
    label = "admin_console"
    verbose_name = "Penstock"
    default_auto_field = "django.db.models.BigAutoField"
