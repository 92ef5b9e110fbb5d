#!/usr/bin/env python3
"""Penstock's commands. `python manage.py serve` starts everything; `python manage.py help` lists the rest."""

import os
import sys


def main() -> None:
    """Read the data path and the console's options, then hand over to Django."""
    from admin_console.options import ConsoleOptions, take_early_flags

    # What the console and the engine write belongs to whoever runs them, and to nobody else.
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "admin_console.settings")
    try:
        arguments = take_early_flags(sys.argv[1:], os.environ)
        ConsoleOptions.from_environment(os.environ)
    except ValueError as exc:
        sys.exit(f"penstock: {exc}")

    from django.core.management import execute_from_command_line

    execute_from_command_line([sys.argv[0], *arguments])


if __name__ == "__main__":
    main()
