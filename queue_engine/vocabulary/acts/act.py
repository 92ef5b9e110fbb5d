"""The types of an act's row: `table.py` has the rows."""

from dataclasses import dataclass
from enum import Enum

from queue_engine.vocabulary.acts.parameters import Parameter, Position
from queue_engine.vocabulary.grants import Role
from queue_engine.vocabulary.permission import Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Which topics can do an act or read. log, diskqueue: "" where topics of that storage kind can, else the reason why
    not, the rest of a sentence that begins "topic T has storage kind K: ". ephemeral: the same of a topic or channel
    named #ephemeral; the sentence begins "T/C is ephemeral: ". nsqd: the same of all topics of a node that is a Go
    nsqd; the sentence begins "N is an nsqd and "."""

    log: str = ""
    diskqueue: str = ""
    ephemeral: str = ""
    nsqd: str = ""


ALL_KINDS = Kinds()


class State(Enum):
    """The state that a question shows, that must be unchanged when its act begins, and that the act changes.

    Acts that name the same of SHARED change the same state: each is refused when another was done since its question
    was shown (`queue_engine/engine/acts/recent_acts.py`). TOPIC and CHANNEL are compared by their numbers, COUNTS by
    the number of messages to remove, MESSAGES one by one, in the engine.
    """

    TOPIC = "the topic, not another one of its name"
    CHANNEL = "the channel, not another one of its name"
    MESSAGES = "the state of each message that is named"
    COUNTS = "how many messages are removed, within a tolerance"
    CHANNELS = "which channels the topic has"
    TOPIC_PAUSE = "whether the topic is paused, why, and until when"
    CHANNEL_PAUSE = "whether the channel is paused, why, and until when; its ramp"
    TOPIC_FENCE = "whether the topic is fenced"
    CHANNEL_FENCE = "whether the channel is fenced"
    TOPIC_BACKLOG = "the messages that wait at the topic itself"
    BACKLOG = "which messages the channel has"
    IN_FLIGHT = "the messages that consumers hold"
    DEFERRED = "the deferred messages"
    QUARANTINE = "the quarantined messages, and a redrive of them"
    MAX_ATTEMPTS = "after how many attempts a message is quarantined"
    COPIES = "which messages were published again"
    CURSOR = "whether there is this cursor"
    LIMITS = "the limits of the archive"
    TRASH = "the entry of the trash"
    PROGRAM = "the token of a program"
    JOB = "whether the job is stopped"
    REPLAY = "how far the replay is"
    TOMBSTONE = "whether the producer is hidden"
    REGISTRATION = "whether nsqlookupds list the name"
    ADDRESSES = "which nodes and nsqlookupds the console calls"


SHARED = frozenset(State) - {State.TOPIC, State.CHANNEL, State.MESSAGES, State.COUNTS}
OF_MESSAGES = (State.CHANNEL, State.MESSAGES)
IN_CHANNEL = (State.BACKLOG, State.IN_FLIGHT, State.DEFERRED, State.QUARANTINE)
OF_CHANNEL = (*IN_CHANNEL, State.MAX_ATTEMPTS, State.CHANNEL_PAUSE, State.CHANNEL_FENCE)
OF_TOPIC = (State.CHANNELS, State.TOPIC_BACKLOG, State.TOPIC_PAUSE, State.TOPIC_FENCE, State.CURSOR, *OF_CHANNEL)


@dataclass(frozen=True, slots=True)
class OverHttp:
    """How a request over HTTP does the act: by POST. text: its sentence. harm: the damage that the holder of the
    permission can do; a token for some topics does that on these topics alone. parameters: those beside the names.
    permission: the one that a token needs. takes_author: the method gets the author's name as `by`. is_detailed: the
    audit list has the values of the parameters, for the act's sentence."""

    path: str
    text: str
    harm: str
    parameters: tuple[Parameter | Position, ...] = ()
    permission: Permission = Permission.ADMINISTER
    takes_author: bool = False
    is_detailed: bool = False


@dataclass(frozen=True, slots=True)
class Act:
    """role: the least that may do it on a page; None: no page offers it. kinds: the topics that can do it. unchanged:
    the state that must be as its question showed it. undo: the act that takes it back, "" for none. on_several: a list
    offers it for all that is selected in it. http: None: no request over HTTP does it."""

    name: str
    role: Role | None
    kinds: Kinds = ALL_KINDS
    unchanged: tuple[State, ...] = ()
    undo: str = ""
    on_several: bool = False
    http: OverHttp | None = None

    @property
    def changes(self) -> frozenset[State]:
        """The states that questions show and this act changes."""
        return SHARED.intersection(self.unchanged)
