"""The three roles, as the engine has them, and as the users' table stores them."""

from queue_engine.vocabulary.grants import Role

__all__ = ["CHOICES", "Role"]

CHOICES = tuple((role.value, role.value) for role in Role)
