"""The filters of a page of messages, read from its address; complaints about them are sentences."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from admin_console.gateway.gateway import KEY_BYTES_MAX, MessageQuery
from admin_console.messages.bodies import FORMS
from admin_console.messages.states import FINISHED, STATES, WAITING
from admin_console.vocabulary import units
from admin_console.vocabulary.times import time_of

OFFSET_DIGITS_MAX = 18
ATTEMPTS_MAX = 65_535  # as a message's frame counts them
SORTS = {"": "default order", "attempts": "attempts, most first", "age": "age, oldest first"}
_MESSAGE_ID = re.compile(r"[0-9a-f]{16}")
_FIELDS = ("state", "sort", "form", "from", "to", "first", "last", "attempts", "key")
_LENGTHS = {"key": KEY_BYTES_MAX + 1}  # one more than can be right, so that a longer one is refused
_LENGTH = 40


def is_offset(text: str) -> bool:
    """Whether it is a whole number from 0, in ASCII: `isdigit` alone takes "²", too, which is none."""
    return text.isascii() and text.isdigit() and len(text) <= OFFSET_DIGITS_MAX


def is_message_id(text: str) -> bool:
    """Whether it can be a message's id, of 16 hex digits. An offset of 16 digits can be one as well."""
    return _MESSAGE_ID.fullmatch(text) is not None


def time_ns_of(text: str) -> int:
    """Unix ns of an ISO date and time; UTC unless it names a zone. Raises ValueError with a sentence."""
    return int(time_of(text).timestamp() * 1_000) * 1_000_000


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """fields: the filters as they were typed; query: the engine's query, without a page's size; complaint: a sentence
    about invalid filters, and then the query is that of the state alone; "" for valid ones."""

    fields: Mapping[str, str]
    query: MessageQuery
    complaint: str = ""

    @property
    def form(self) -> str:
        form = self.fields["form"]
        return form if form in FORMS else FORMS[0]

    @property
    def has_filter(self) -> bool:
        return any(self.fields[name] for name in ("from", "to", "first", "last", "attempts", "key"))

    def address(self, **others: str) -> str:
        """The part of an address behind `?` with the same filters, but with these fields instead."""
        return urlencode({name: value for name, value in {**self.fields, **others}.items() if value})


def filter_of(given: Mapping[str, str]) -> MessageFilter:
    """given: the fields of an address."""
    fields = {name: given.get(name, "").strip()[: _LENGTHS.get(name, _LENGTH)] for name in _FIELDS}
    fields["state"] = fields["state"] or WAITING
    query, complaints = MessageQuery(), []
    for name, read in _READERS.items():
        if fields[name]:
            try:
                query = replace(query, **read(fields[name]))
            except ValueError as exc:
                complaints.append(str(exc))
    complaints += _reversed(fields, query)
    if query.sort and (query.key or (query.state == FINISHED and query.sort == "attempts")):
        query, fields["sort"] = replace(query, sort=""), ""
    cursor = given.get("cursor", "")[:200]
    if complaints:
        return MessageFilter(fields, MessageQuery(state=query.state), " ".join(complaints))
    return MessageFilter(fields, replace(query, after=cursor))


def _reversed(fields: Mapping[str, str], query: MessageQuery) -> list[str]:
    """Sentences about ranges that no message can lie in."""
    complaints = []
    if query.since_ns is not None and query.until_ns is not None and query.since_ns >= query.until_ns:
        since, until = (f"{units.moment(at_ns // 1_000_000)} UTC" for at_ns in (query.since_ns, query.until_ns))
        complaints.append(f"The times are reversed: from {since} is not before {until}.")
    if query.first_offset is not None and query.end_offset is not None and query.first_offset >= query.end_offset:
        complaints.append(f"The offsets are reversed: from {fields['first']} is after {fields['last']}.")
    return complaints


def _state(text: str) -> dict[str, Any]:
    if text not in STATES:
        raise ValueError(f"{text!r} is no state of a message: it can be {', '.join(STATES)}.")
    return {"state": text}


def _sort(text: str) -> dict[str, Any]:
    if text not in SORTS:
        raise ValueError(f"Messages can't be sorted by {text!r}: it can be {' or '.join(filter(None, SORTS))}.")
    return {"sort": text}


def _offset(text: str) -> int:
    if not is_offset(text):
        raise ValueError(f"{text!r} is not an offset: a whole number from 0.")
    return int(text)


def _attempts(text: str) -> dict[str, Any]:
    if not is_offset(text) or int(text) > ATTEMPTS_MAX:
        raise ValueError(f"{text!r} is not a number of attempts: a whole number from 0 to {ATTEMPTS_MAX:,}.")
    return {"attempts_min": int(text)}


def _key(text: str) -> dict[str, Any]:
    key = text.encode(errors="replace")
    if len(key) > KEY_BYTES_MAX:
        raise ValueError(f"{text[:40]!r}… is longer than a key can be: the most is {KEY_BYTES_MAX} bytes.")
    return {"key": key}


_READERS = {
    "state": _state,
    "sort": _sort,
    "from": lambda text: {"since_ns": time_ns_of(text)},
    "to": lambda text: {"until_ns": time_ns_of(text)},
    "first": lambda text: {"first_offset": _offset(text)},
    "last": lambda text: {"end_offset": _offset(text) + 1},
    "attempts": _attempts,
    "key": _key,
}
