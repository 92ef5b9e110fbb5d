"""The servers that have the topics of a read: the one of `url`, or those that nsqlookupds name.

Each server has messages of its own, with offsets of its own. A topic's identity (number, id base) is different on each,
and stays with its data directory, so a server that comes back at another address is the same one.
"""

import http.client
import logging
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import orjson

from queue_engine.lake.source.read_options import ReadOptions
from queue_engine.vocabulary.errors import EngineUnreachableError, TopicMissingError

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 16 << 20


def urls_of(options: ReadOptions) -> list[str]:
    """The HTTP API of each server, sorted. With nsqlookupds: those that produce one of the topics.

    Raises EngineUnreachableError when no nsqlookupd answers, and TopicMissingError when no server has any of the
    topics. An nsqlookupd that does not answer beside others is logged.
    """
    if not options.lookupd:
        return [options.url]
    found: set[str] = set()
    answers, why = 0, ""
    for address in options.lookupd:
        try:
            for topic in options.topics:
                found.update(_producers(address, topic))
            answers += 1
        except (OSError, http.client.HTTPException, ValueError) as exc:
            why = f"nsqlookupd {address} does not answer: {exc}"
            logger.warning("%s", why)
    if not answers:
        raise EngineUnreachableError(why)
    if not found:
        named = ", ".join(options.lookupd)
        raise TopicMissingError(f"no server that {named} names has {' or '.join(options.topics)}")
    return sorted(found)


def _producers(address: str, topic: str) -> Iterable[str]:
    """Raises OSError, HTTPException, or ValueError for an answer that can't be read."""
    parts = urlsplit(address if "//" in address else f"http://{address}")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    if not parts.hostname:
        raise ValueError("it is not HOST:PORT")
    connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", f"/lookup?topic={quote(topic, safe='')}")
        answer = connection.getresponse()
        data = answer.read(ANSWER_BYTES_MAX + 1)
    finally:
        connection.close()
    if answer.status == 404:
        return []  # 404: the topic is not there
    if answer.status != 200:
        raise ValueError(f"status {answer.status}")
    if len(data) > ANSWER_BYTES_MAX:
        raise ValueError(f"the answer has more than {ANSWER_BYTES_MAX} bytes")
    try:
        producers = orjson.loads(data)["producers"]
        return [_url(one["broadcast_address"], one["http_port"]) for one in producers]
    except (KeyError, TypeError) as exc:
        raise ValueError("the answer names no producers") from exc


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
