"""The three roles, each including the ones before it."""

from django.db import models


class Role(models.TextChoices):
    """viewer reads; operator acts without losing messages; admin also empties and deletes."""

    VIEWER = "viewer", "viewer"
    OPERATOR = "operator", "operator"
    ADMIN = "admin", "admin"

    def includes(self, least: "Role") -> bool:
        """Whether this role may do what `least` may."""
        return _ORDER[self] >= _ORDER[least]


_ORDER = {Role.VIEWER: 0, Role.OPERATOR: 1, Role.ADMIN: 2}
