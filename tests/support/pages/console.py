"""Users, logged-in browsers, and the real engine behind the console's views."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.test import Client

from admin_console.accounts.models import User
from admin_console.gateway.current import set_gateway
from admin_console.gateway.embedded import EmbeddedGateway
from admin_console.gateway.pipeline import Pipeline, set_pipeline
from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.storage_kinds import engine_options

PASSWORD = "correct horse battery staple"


def make_user(username: str = "ada", role: Role = Role.ADMIN, password: str = PASSWORD) -> User:
    """A user in the test database."""
    return User.objects.create_user(username, password, role)


def client_of(user: User, **kwargs: Any) -> Client:
    """A browser in which `user` is logged in; CSRF is enforced as in the product when asked for."""
    client = Client(**kwargs)
    client.force_login(user)
    return client


@contextmanager
def console_engine(data_path: Path, **options: Any) -> Iterator[EngineRunner]:
    """A running engine that the console's gateway leads to."""
    settled = engine_options(tcp_address="127.0.0.1:0", http_address="127.0.0.1:0", data_path=str(data_path), **options)
    runner = EngineRunner(settled)
    runner.start()
    set_gateway(EmbeddedGateway(runner, settled))
    set_pipeline(Pipeline(data_path / "pipeline"))
    try:
        yield runner
    finally:
        set_pipeline(None)
        set_gateway(None)
        runner.stop()
