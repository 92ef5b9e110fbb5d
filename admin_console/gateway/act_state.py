"""What a question shows, by name: the state that must not have changed until its act begins, and that the act changes.

Acts that name the same of SHARED change the same state: each is refused when another was done since its question was
asked (`queue_engine/recent_acts.py`). TOPIC and CHANNEL are compared by their numbers, COUNTS as the engine counts what
it removes, MESSAGES by the engine for each message.
"""

from enum import Enum


class State(Enum):
    TOPIC = "the topic, not another one of its name"
    CHANNEL = "the channel, not another one of its name"
    MESSAGES = "the state of each message that is named"
    COUNTS = "how many messages are removed, within a tolerance"
    CHANNELS = "which channels the topic has"
    TOPIC_PAUSE = "whether the topic is paused, why, and until when"
    CHANNEL_PAUSE = "whether the channel is paused, why, and until when; its ramp"
    TOPIC_FENCE = "whether the topic is fenced"
    CHANNEL_FENCE = "whether the channel is fenced"
    TOPIC_BACKLOG = "what waits at the topic itself"
    BACKLOG = "which messages the channel has"
    IN_FLIGHT = "what consumers hold"
    DEFERRED = "what is deferred"
    QUARANTINE = "what is quarantined, and a redrive of it"
    MAX_ATTEMPTS = "after how many attempts a message is quarantined"
    COPIES = "which messages were published again"
    CURSOR = "whether there is this cursor"
    LIMITS = "the limits of the archive"
    TRASH = "the entry of the trash"
    PROGRAM = "the token of a program"
    JOB = "whether the job is stopped"
    REPLAY = "how far the replay is"
    TOMBSTONE = "whether the producer is hidden"


SHARED = frozenset(State) - {State.TOPIC, State.CHANNEL, State.MESSAGES, State.COUNTS}
OF_MESSAGES = (State.CHANNEL, State.MESSAGES)
IN_CHANNEL = (State.BACKLOG, State.IN_FLIGHT, State.DEFERRED, State.QUARANTINE)
OF_CHANNEL = (*IN_CHANNEL, State.MAX_ATTEMPTS, State.CHANNEL_PAUSE, State.CHANNEL_FENCE)
OF_TOPIC = (State.CHANNELS, State.TOPIC_BACKLOG, State.TOPIC_PAUSE, State.TOPIC_FENCE, State.CURSOR, *OF_CHANNEL)
