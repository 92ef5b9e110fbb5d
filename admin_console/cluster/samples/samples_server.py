"""The samples of a console without an engine, over HTTP on loopback: the pipeline's worker reads them there as from an
engine's own API.

    GET /log/topic?topic=_penstock.samples[&time_ms=MS][&offset=N]        wire/topic_state.py
    GET /log/records?topic=_penstock.samples&offset=N[&max_bytes=N]       wire/records.py
    GET /cursor/list                                                      wire/cursor.py: no cursors, and who answers
    POST /log/lease                                                       INVALID_TOPIC, as from an engine

Every request needs the process's own token. There is no other topic.
"""

import hmac
import logging
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

from admin_console.cluster.samples.node_samples import DirectorySamples
from queue_engine.engine.acts.log_acts import READ_RECORDS_BYTES, records_of, state_of
from queue_engine.storage.log_store.log_topic_store import LogTopicStore
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.errors import PenstockError, ReservedTopicError, TopicNotFoundError
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from queue_engine.wire.cursor import encode_cursor_list
from queue_engine.wire.error_answers import ErrorAnswer
from queue_engine.wire.records import page_headers

logger = logging.getLogger(__name__)

_IDLE_S = 60.0
_Headers = tuple[tuple[str, str], ...]
_Query = dict[str, str]


class SamplesServer:
    """Answers from its making until `close`, in threads of its own. samples: read under its lock."""

    def __init__(self, samples: DirectorySamples, token: str) -> None:
        self._samples = samples
        self._expected = f"Bearer {token}".encode()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = _IDLE_S

            def do_GET(self) -> None:
                status, data, headers = outer._answer(self.path, self.headers.get("Authorization", ""))
                self.send_response(status)
                for name, value in (*headers, ("Content-Length", str(len(data)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                self.close_connection = True  # a body, if there is one, is not read
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """No access log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="penstock-samples", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._server.server_address[:2]
        return str(host), port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, target: str, authorization: str) -> tuple[int, bytes, _Headers]:
        """Status, body and headers."""
        if not hmac.compare_digest(authorization.encode(), self._expected):
            return _refused(403, "FORBIDDEN")
        parts = urlsplit(target)
        if parts.path == "/log/lease":
            return _refused(400, ReservedTopicError.code, "samples are read without a lease")
        read: Callable[[LogTopicStore, _Query], tuple[bytes, _Headers]] | None = {
            "/log/topic": _state,
            "/log/records": _records,
            "/cursor/list": _cursors,
        }.get(parts.path)
        if read is None:
            return _refused(404, "NOT_FOUND")
        query = dict(parse_qsl(parts.query))
        try:
            with self._samples.lock:
                store = self._samples.store
                if store is None or query.get("topic", SAMPLES_TOPIC) != SAMPLES_TOPIC:
                    return _refused(404, TopicNotFoundError.code)
                data, headers = read(store, query)
            return 200, data, headers
        except PenstockError as exc:
            return _refused(400, getattr(exc, "code", "STORAGE_ERROR"), str(exc), getattr(exc, "finer_code", ""))
        except ValueError as exc:
            return _refused(400, "INVALID_REQUEST", str(exc))
        except Exception:
            logger.exception("samples not read target=%s", target)
            return _refused(500, "INTERNAL_ERROR")


def _refused(status: int, message: str, detail: str = "", code: str = "") -> tuple[int, bytes, _Headers]:
    answer = ErrorAnswer(message, detail, code)
    return status, answer.encoded(), answer.headers()


def _state(store: LogTopicStore, query: _Query) -> tuple[bytes, _Headers]:
    time_ns = int(query["time_ms"]) * NS_PER_MS if "time_ms" in query else None
    return state_of(store, time_ns, int(query.get("offset", "0"))).encoded(), ()


def _records(store: LogTopicStore, query: _Query) -> tuple[bytes, _Headers]:
    records = records_of(store, int(query.get("offset", "0")), int(query.get("max_bytes", READ_RECORDS_BYTES)))
    headers = page_headers(
        number=records.topic_number,
        id_base=records.id_base,
        oldest_offset=records.oldest_offset,
        first_offset=records.first_offset,
        next_offset=records.next_offset,
        synced_offset=records.synced_offset,
        count=records.count,
    )
    return records.records, headers


def _cursors(store: LogTopicStore, _: _Query) -> tuple[bytes, _Headers]:
    # Of a data directory without an engine the samples' own number is all that tells it from others.
    return encode_cursor_list((), (), f"{store.id_base:016x}"), ()
