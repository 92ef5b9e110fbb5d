"""Answers requests about the server itself that change it or look into it.

GET /config/OPTION     its value now
PUT /config/OPTION     the body is the new one, until the next start; audited
/debug/…               stacks and memory of the process, with --debug-endpoints
"""

import asyncio
from collections.abc import Callable

import orjson

from queue_engine.delivery.stats import Outcome
from queue_engine.engine.engine import Engine
from queue_engine.service.http.answer_thread import AnswerThread
from queue_engine.service.http.audit import Done, HttpAudit
from queue_engine.service.http.exchange.handler import Handler
from queue_engine.service.http.exchange.request import RequestHead
from queue_engine.service.http.exchange.response import Answer, Response
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.endpoints import CONFIG, option_of
from queue_engine.service.http.refusals import Refusal
from queue_engine.service.introspection.memory import collector_text, free_memory, memory_text
from queue_engine.service.introspection.stacks import tasks_text, threads_text
from queue_engine.vocabulary.errors import InvalidOptionValueError, UnknownOptionError
from queue_engine.vocabulary.ticket import DONE

_CHANGE = "change_option"
_VALUE_SHOWN_MAX = 200  # characters of a new value in the audit list


_INDEX = """Python has no pprof. There are

GET  /debug/threads     each thread with its stack
GET  /debug/tasks       each task of the engine's loop, and where it waits
GET  /debug/memory      objects by type; the lines that took memory, with PYTHONTRACEMALLOC=1
GET  /debug/gc          the work of Python's collector
POST /debug/freememory  collects garbage and gives free memory back; the server waits meanwhile

Not here: cmdline, symbol, profile, heap, goroutine, block, threadcreate, which are Go's.
"""


class ServerRoutes:
    """Handles requests about the options and the process. answers: the thread for long work."""

    def __init__(self, engine: Engine, audit: HttpAudit, answers: AnswerThread) -> None:
        self._engine = engine
        self._audit = audit
        self._answers = answers
        debugging: dict[str, Handler] = {
            "/debug/pprof/": lambda head, body, answer: answer(Response(200, _INDEX.encode())),
            "/debug/threads": self._made(threads_text),
            "/debug/tasks": self._tasks,
            "/debug/memory": self._made(memory_text),
            "/debug/gc": self._made(collector_text),
            "/debug/freememory": self._made(_freed),
            "/debug/setblockrate": _no_block_profile,
        }
        if not engine.options.debug_endpoints:
            debugging = dict.fromkeys(debugging, _debugging_is_off)
        self.handlers: dict[str, Handler] = {CONFIG: self._config, **debugging}

    def _made(self, make: Callable[[], str]) -> Handler:
        """A handler that answers with a text which is made on the thread."""

        def handle(head: RequestHead, body: bytes, answer: Answer) -> None:
            self._answers.make(head, lambda: Response(200, make().encode("utf-8", "replace")), answer)

        return handle

    def _tasks(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        text = tasks_text(asyncio.get_running_loop())
        self._answers.compress(head, Response(200, text.encode("utf-8", "replace")), answer)

    def _config(self, head: RequestHead, body: bytes, answer: Answer) -> None:
        name = option_of(head.path)
        if head.method == "PUT":
            self._change_option(head, name, body, answer)
        else:
            answer(self._option(name))

    def _change_option(self, head: RequestHead, name: str, body: bytes, answer: Answer) -> None:
        def refuse(refusal: Refusal) -> None:
            self._audit.refuse(head, _CHANGE, "", "", refusal, answer)

        def change() -> Done:
            try:
                self._engine.config.change(name, body)
            except (UnknownOptionError, InvalidOptionValueError) as exc:
                raise Refusal(400, exc.code, str(exc)) from exc
            details = {"option": name, "value": body.decode("utf-8", "replace")[:_VALUE_SHOWN_MAX]}
            return self._option(name), DONE, Outcome(), details

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


def _freed() -> str:
    free_memory()
    return ""


def _no_block_profile(head: RequestHead, body: bytes, answer: Answer) -> None:
    raise Refusal(501, "NOT_SUPPORTED", "Python has no profile of blocking calls: see /debug/threads")


def _debugging_is_off(head: RequestHead, body: bytes, answer: Answer) -> None:
    raise Refusal(404, "NOT_FOUND", "debugging is off: start the server with --debug-endpoints")
