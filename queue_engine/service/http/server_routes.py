"""Answers requests about the server itself that change it or look into it.

GET /config/OPTION     its value now
PUT /config/OPTION     the body is the new one, until the next start; audited
"""

import orjson

from queue_engine.delivery.stats import ActRecord, Outcome
from queue_engine.engine import Engine
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.http.connection import Answer, Handler, RequestHead, Response
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.endpoints import CONFIG, option_of
from queue_engine.service.http.refusals import Refusal
from queue_engine.vocabulary.errors import InvalidOptionValueError, UnknownOptionError

_CHANGE = "change_option"
_VALUE_SHOWN_MAX = 200  # characters of a new value in the audit list


class ServerRoutes:
    """Handles requests about the options."""

    def __init__(self, engine: Engine, audit: HttpAudit) -> None:
        self._engine = engine
        self._audit = audit
        self.handlers: dict[str, Handler] = {CONFIG: self._config}

    def _config(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        name = option_of(head.path)
        if head.method == "PUT":
            self._change_option(head, name, body, answer)
        else:
            answer(self._option(name))

    def _change_option(self, head: RequestHead, name: str, body: bytes, answer: Answer) -> None:
        def refuse(refusal: Refusal, act_id: str = "") -> None:
            self._audit.refuse(head, _CHANGE, "", "", refusal, answer, act_id)

        def change(act_id: str) -> None:
            try:
                self._engine.config.change(name, body)
            except (UnknownOptionError, InvalidOptionValueError) as exc:
                refuse(Refusal(400, exc.code, str(exc)), act_id)
                return
            told = {"option": name, "value": body.decode("utf-8", "replace")[:_VALUE_SHOWN_MAX]}
            self._audit.tell(
                ActRecord(_CHANGE, "", "", head.remote_address, "", Outcome(), act_id=act_id, details=told)
            )
            answer(self._option(name))

        if not body:
            refuse(Refusal(413, InvalidOptionValueError.code, "the body is empty"))
        elif self._engine.is_closing:
            refuse(Refusal(503, "EXITING"))
        else:
            self._audit.begin(head, _CHANGE, "", "", answer, change)

    def _option(self, name: str) -> Response:
        try:
            value = self._engine.config.value(name)
        except UnknownOptionError as exc:
            raise Refusal(400, exc.code, str(exc)) from exc
        # As nsqd: a text as it is, anything else as JSON.
        return Response(200, value.encode()) if isinstance(value, str) else Response(200, orjson.dumps(value), JSON)
