"""What a path takes and answers: the parts of its entry in `endpoints.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queue_engine.service.http.reference.content_types import TEXT
from queue_engine.vocabulary.acts.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Success:
    """An answer that is no error. schema: of a JSON body, or None. headers: names and what they state."""

    text: str
    content_type: str = TEXT
    schema: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True)
class Error:
    """An error's answer. word: its `message`. codes: the finer ones that may be its `code`."""

    status: int
    word: str
    text: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path. text: what it does. body: what the request's body is, "" for none.

    is_message: whether it is one message. is_value: whether it is an option's value.

    errors: those that this path alone, or its family, has; `errors.py` has
    those of all paths.
    """

    text: str
    answers: tuple[Success, ...]
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    is_message: bool = False
    is_value: bool = False
    errors: tuple[Error, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of its parameters."""
        return frozenset(parameter.name for parameter in self.parameters)
