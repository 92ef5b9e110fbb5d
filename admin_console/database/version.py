"""The version of the database: the newest migration that it has seen. A newer one is refused, nothing is changed."""

from pathlib import Path

from django.db.migrations.loader import MigrationLoader

from admin_console.database.inspection import applied_migrations


def complaint_about_version(path: Path) -> str:
    """A sentence that names both versions when a newer Penstock, or a newer Django, has migrated the file; else ""."""
    applied = applied_migrations(path)
    if not applied:
        return ""
    newest_names: dict[str, str] = {}
    for app_name, name in MigrationLoader(None, ignore_no_migrations=True).disk_migrations:
        newest_names[app_name] = max(name, newest_names.get(app_name, ""))
    # Other apps' migrations do not count, and Django drops old migrations that newer ones replace.
    newer = [(app, name) for app, name in applied if app in newest_names and name > newest_names[app]]
    if not newer:
        return ""
    app, newest = max(newer, key=lambda found: (found[0] == "admin_console", found[1]))
    return (
        f"{path} is of a newer version: it has the migration {app} {newest}, and the newest that this version of "
        f"Penstock has is {app} {newest_names[app]}. Nothing was changed. Start the version that made it, or move "
        "the file away to begin with an empty list of users and acts."
    )
