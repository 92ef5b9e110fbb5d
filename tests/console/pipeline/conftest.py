"""What the pipeline's tests share: a lake, an engine without topics, and an operator."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from admin_console.vocabulary.roles import Role
from queue_engine.service.runner import EngineRunner
from tests.support.pages.console import client_of, console_engine, make_user


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "pipeline"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    with console_engine(tmp_path) as runner:
        yield runner


@pytest.fixture
def browser() -> Client:
    return client_of(make_user(role=Role.OPERATOR))
