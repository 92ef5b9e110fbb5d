"""The table of every path: its method, whether it needs a token and which permission, and its name in the audit list.

Where there are tokens, or `--http-token`, every request that publishes, changes something or reads topics of the log
needs one. Probes and requests for stats stay open: nsqadmin, nsq_stat and scrapers have no token to send. A path that
is not in the table is answered 404.

Each row answers one question as its `harm`: what can the holder of the permission destroy, or keep others from? A token
for some topics does that on these topics alone. Over TCP, `consume` also finishes messages and creates channels by SUB,
which hold the log until they are deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from queue_engine.identity.permission import Permission
from queue_engine.service.http.reference.endpoints import CONFIG


class Rule(Enum):
    """What a request must have."""

    OPEN = "nothing"
    CHANGES = "a token, where there are some"
    # As CHANGES; and without tokens the API answers them on loopback only.
    BODIES = "a token; on loopback only where there are some"
    # As BODIES; the process itself is shown.
    PROCESS = "a token that may administer; on loopback only where there are some"


# What a token must allow, where the path's row does not say it.
_PERMISSIONS = {
    Rule.OPEN: None,
    Rule.CHANGES: Permission.ADMINISTER,
    Rule.BODIES: Permission.CONSUME,
    Rule.PROCESS: Permission.ADMINISTER,
}

_NONE = "nothing"
_SHOWS = "nothing; shows bodies and keys, audited"
_PUBLISHES = "fills the disk to its limit, where all publishes are refused; makes topics up to --max-topics"
_RESTORABLE = "takes messages from consumers; the trash restores them until it gives them up"
_STOPS = "consumers wait until it is resumed; the log keeps their messages"
_AGAIN = "messages are delivered again; bounded by the attempts of each"
_OWN_READERS = "the log keeps messages for it, within limits; its own alone, others' and the archive need administer"


@dataclass(frozen=True, slots=True)
class Path:
    """method: GET or POST. rule: what a request must have. action: its name in the audit list; "" for requests
    without a row there: publishing is no act, and would flood the list. changed_by: a second method, which changes what
    the first one reads, and which alone has rows in the audit list; "" for none. publishes: a token must allow to
    publish, and no more. any_host: the daemon answers whatever Host the request names (`access.py`). harm: what its
    holder can destroy, or keep others from."""

    method: str
    rule: Rule
    action: str = ""
    changed_by: str = ""
    publishes: bool = False
    any_host: bool = False
    harm: str = field(kw_only=True)

    @property
    def permission(self) -> Permission | None:
        """What a token must allow on the request's topic; None for nothing."""
        return Permission.PUBLISH if self.publishes else _PERMISSIONS[self.rule]

    @property
    def methods(self) -> tuple[str, ...]:
        return (self.method, self.changed_by) if self.changed_by else (self.method,)

    def is_act(self, method: str) -> bool:
        """Whether a request with this method has a row in the audit list."""
        return bool(self.action) and self.changed_by in ("", method)


PATHS: Mapping[str, Path] = {
    "/ping": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/livez": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/readyz": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/info": Path("GET", Rule.OPEN, any_host=True, harm=_NONE),
    "/stats": Path(
        "GET",
        Rule.OPEN,
        any_host=True,
        harm="nothing; shows names of topics and addresses of clients; its work is paced",
    ),
    "/metrics": Path("GET", Rule.OPEN, harm="nothing; shows names of topics; its work is paced"),
    "/openapi.json": Path("GET", Rule.OPEN, harm=_NONE),
    CONFIG: Path(
        "GET",
        Rule.CHANGES,
        "change_option",
        changed_by="PUT",
        harm="verbose logging fills the disk of the log; lower limits refuse clients; until the next start",
    ),
    "/debug/pprof/": Path("GET", Rule.PROCESS, harm=_NONE),
    "/debug/threads": Path("GET", Rule.PROCESS, harm="nothing; shows code and stacks"),
    "/debug/tasks": Path("GET", Rule.PROCESS, harm="nothing; shows code and stacks"),
    "/debug/memory": Path("GET", Rule.PROCESS, harm="nothing; the look takes a moment of the engine's time"),
    "/debug/gc": Path("GET", Rule.PROCESS, harm="nothing; shows types of objects"),
    "/debug/freememory": Path("POST", Rule.PROCESS, harm="all clients wait for the length of a collection"),
    "/debug/setblockrate": Path("PUT", Rule.PROCESS, harm="nothing: not supported"),
    "/pub": Path("POST", Rule.CHANGES, publishes=True, harm=_PUBLISHES),
    "/mpub": Path("POST", Rule.CHANGES, publishes=True, harm=_PUBLISHES),
    "/log/write": Path(
        "POST",
        Rule.CHANGES,
        publishes=True,
        harm=f"{_PUBLISHES}; pushes out the oldest batch keys of all topics: a late retry of those is written twice",
    ),
    "/topic/create": Path("POST", Rule.CHANGES, "create_topic", harm="a place of --max-topics"),
    "/topic/delete": Path(
        "POST",
        Rule.CHANGES,
        "delete_topic",
        harm="the topic, its channels and cursors; the trash restores it until it gives it up",
    ),
    "/topic/empty": Path("POST", Rule.CHANGES, "empty_topic", harm=_RESTORABLE),
    "/topic/pause": Path("POST", Rule.CHANGES, "pause_topic", harm=_STOPS),
    "/topic/unpause": Path(
        "POST", Rule.CHANGES, "unpause_topic", harm="consumers get messages that an operator held back"
    ),
    "/topic/retry": Path(
        "POST", Rule.CHANGES, "retry_topic", harm="nothing; clears a fence, which comes again while its cause lasts"
    ),
    "/channel/create": Path(
        "POST",
        Rule.CHANGES,
        "create_channel",
        harm="the log keeps what the channel does not consume; a place of --max-channels-per-topic",
    ),
    "/channel/delete": Path("POST", Rule.CHANGES, "delete_channel", harm=_RESTORABLE),
    "/channel/empty": Path("POST", Rule.CHANGES, "empty_channel", harm=_RESTORABLE),
    "/channel/pause": Path("POST", Rule.CHANGES, "pause_channel", harm=_STOPS),
    "/channel/unpause": Path(
        "POST", Rule.CHANGES, "unpause_channel", harm="consumers get messages that an operator held back"
    ),
    "/channel/retry": Path(
        "POST", Rule.CHANGES, "retry_channel", harm="nothing; clears a fence, which comes again while its cause lasts"
    ),
    "/channel/max_attempts": Path(
        "POST",
        Rule.CHANGES,
        "set_max_attempts",
        harm="a low number quarantines what consumers would still handle; a redrive brings it back",
    ),
    "/channel/redrive": Path("POST", Rule.CHANGES, "redrive_channel", harm=_AGAIN),
    "/channel/redrive/cancel": Path(
        "POST", Rule.CHANGES, "cancel_redrive", harm="quarantined messages stay there until the next redrive"
    ),
    "/channel/seek": Path(
        "POST",
        Rule.CHANGES,
        "rewind_channel",
        harm="forth: consumers miss messages, until a rewind back; back: they get messages twice",
    ),
    "/channel/message/finish": Path(
        "POST", Rule.CHANGES, "finish_messages", harm="consumers miss the message; on diskqueue it is gone"
    ),
    "/channel/message/requeue": Path("POST", Rule.CHANGES, "requeue_messages", harm=_AGAIN),
    "/channel/message/release": Path("POST", Rule.CHANGES, "release_messages", harm="a deferred message comes early"),
    "/channel/message/republish": Path(
        "POST", Rule.CHANGES, "publish_again", harm=f"{_AGAIN}; to another topic, which the token must administer, too"
    ),
    "/channel/message/quarantine": Path(
        "POST", Rule.CHANGES, "quarantine_messages", harm="consumers miss the message until a redrive"
    ),
    "/channel/message/redrive": Path("POST", Rule.CHANGES, "redrive_messages", harm=_AGAIN),
    "/channel/messages": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/message": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/search": Path(
        "POST", Rule.BODIES, "read_messages", harm=f"{_SHOWS}; a place among the searches that run at once"
    ),
    "/channel/search/state": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/channel/search/cancel": Path("POST", Rule.BODIES, "read_messages", harm="a search whose random name it has"),
    "/trash": Path("GET", Rule.CHANGES, "list_trash", harm="nothing; shows names"),
    "/trash/restore": Path(
        "POST",
        Rule.CHANGES,
        "restore_trash",
        harm="consumers get the messages again; with swap, what has the name goes to the trash",
    ),
    "/trash/delete": Path("POST", Rule.CHANGES, "delete_trash", harm="what is in the trash, for good"),
    "/topic/messages": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/read": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/records": Path("GET", Rule.BODIES, "read_messages", harm=_SHOWS),
    "/log/topic": Path("GET", Rule.BODIES, "read_messages", harm=_NONE),
    "/log/lease": Path("POST", Rule.BODIES, "read_messages", harm=f"{_SHOWS}; {_OWN_READERS}"),
    "/log/renew": Path("POST", Rule.BODIES, "read_messages", harm=_OWN_READERS),
    "/log/release": Path("POST", Rule.BODIES, "read_messages", harm="its own leases: their reader begins anew"),
    "/cursor/create": Path("POST", Rule.BODIES, "create_cursor", harm=_OWN_READERS),
    "/cursor/move": Path(
        "POST", Rule.BODIES, "move_cursor", harm="its own cursors: their reader misses what they passed"
    ),
    "/cursor/delete": Path("POST", Rule.BODIES, "delete_cursor", harm="its own cursors: their reader begins anew"),
    "/cursor/list": Path("GET", Rule.BODIES, "list_cursors", harm="nothing; shows names"),
}
