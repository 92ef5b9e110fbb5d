"""What a command found wrong with the data that it looked at: the command's outcome, not a mistake of its caller."""

from django.core.management.base import CommandError


class DamageFound(CommandError):
    """The program ends with status 1."""
