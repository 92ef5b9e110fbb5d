"""Users, logged-in clients, and a gateway for views that only need one to be there."""

from typing import Any

from django.test import Client

from admin_console.accounts.models import User
from admin_console.accounts.roles import Role

PASSWORD = "correct horse battery staple"


def make_user(username: str = "ada", role: Role = Role.ADMIN, password: str = PASSWORD) -> User:
    """A user in the test database."""
    return User.objects.create_user(username, password, role)


def client_of(user: User, **kwargs: Any) -> Client:
    """A browser in which `user` is logged in; CSRF is enforced as in the product when asked for."""
    client = Client(**kwargs)
    client.force_login(user)
    return client
