"""A user of the console: a name, a password, one role."""

import re
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.core.exceptions import ValidationError
from django.db import models

from admin_console.vocabulary.roles import CHOICES, Role

USERNAME_LENGTH_MAX = 64
# In which zone pages show times to a user: that of the browser, or UTC.
CLOCKS = (("local", "Local"), ("utc", "UTC"))
CLOCK_DEFAULT = "local"
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]*")


def check_username(name: str) -> None:
    """Raises ValidationError with a sentence that names the value and the rule."""
    if not _USERNAME.fullmatch(name) or len(name) > USERNAME_LENGTH_MAX:
        raise ValidationError(
            f"{name[:80]!r} is not a user name: 1 to {USERNAME_LENGTH_MAX} letters, digits and . _ @ + -, "
            "a letter or digit first."
        )


class UserManager(BaseUserManager["User"]):
    """Makes users; names are compared letter by letter."""

    def create_user(self, username: str, password: str, role: Role) -> "User":
        """Add a user. Raises ValidationError for a bad name, IntegrityError for one that exists."""
        check_username(username)
        user = self.model(username=username, role=role)
        user.set_password(password)
        user.save(force_insert=True, using=self._db)
        return user


class User(AbstractBaseUser):
    """A user who may log in. A password change ends the sessions made with the old one."""

    username = models.CharField(max_length=USERNAME_LENGTH_MAX, unique=True, validators=[check_username])
    role = models.CharField(max_length=16, choices=CHOICES, default=Role.VIEWER)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    clock = models.CharField(max_length=8, choices=CLOCKS, default=CLOCK_DEFAULT, db_default=CLOCK_DEFAULT)

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    objects = UserManager()

    def __str__(self) -> str:
        return self.username

    def has_role(self, least: Role) -> bool:
        """Whether the user has the rights of the role `least`; false for one that is disabled."""
        return self.is_active and Role(self.role).includes(least)
