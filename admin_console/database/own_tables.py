"""Which tables the database has: those of models that the console uses."""

from typing import Any

from django.conf import settings


class OwnTables:
    """A router of Django's: it makes no table and no row of an app whose migrations the settings leave out. A file that
    has such tables stays as it is."""

    def allow_migrate(self, database: str, app_label: str, **hints: Any) -> bool | None:
        """False for those apps; None for others, which Django then decides."""
        return False if app_label in settings.MIGRATION_MODULES else None
