"""Parameters and answers of a path: the parts of its entry in `endpoints.py`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from queue_engine.service.http.reference.content_types import TEXT
from queue_engine.vocabulary.acts.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Success:
    """An answer that is no error. schema: of a JSON body, or None. headers: names and meanings."""

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
    """One path. text: its purpose. body: the content of a request's body, "" for none. is_message: the body is one
    message. is_value: the body is an option's value. errors: the errors of this path alone, or of its family;
    `errors.py` has the errors of all paths. names: the names of its parameters.
    """

    text: str
    answers: tuple[Success, ...]
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    is_message: bool = False
    is_value: bool = False
    errors: tuple[Error, ...] = ()
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        # Once for all requests: the class is frozen.
        object.__setattr__(self, "names", frozenset(parameter.name for parameter in self.parameters))
