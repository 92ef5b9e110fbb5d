"""Acts on topics and channels of either storage kind. Each returns what it did, and the ticket after which that is
durable.

What the names mean and what is raised is told at the engine's methods of the same names.
"""

from collections.abc import Sequence

from queue_engine import log_acts
from queue_engine.catalog import Catalog
from queue_engine.delivery.channel import Channel
from queue_engine.delivery.stats import Outcome
from queue_engine.delivery.topic import Topic
from queue_engine.delivery.workload import Workload
from queue_engine.log_store.log_backlog import LogBacklog
from queue_engine.log_store.log_topic_store import LogTopicStore
from queue_engine.stores import KINDS
from queue_engine.vocabulary.errors import InvalidStorageError
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.ticket import DONE, Ticket, after, or_unknown


def create_topic(catalog: Catalog, topic: str, *, storage: str = "") -> tuple[Outcome, Ticket]:
    if storage and storage not in KINDS:
        raise InvalidStorageError(f"storage kind {storage!r} does not exist: it can be {' or '.join(KINDS)}")
    catalog.check_open()
    outcome = Outcome()

    def act() -> Ticket:
        known = catalog.topics.get(topic)
        if known is not None and storage and not is_ephemeral(topic) and known.store.kind != storage:
            raise InvalidStorageError(
                f"topic {topic} exists with storage kind {known.store.kind} and can't become {storage}"
            )
        outcome.created = known is None
        return catalog.create_topic(topic, storage)

    return outcome, catalog.in_turn(topic, act)


def create_channel(
    catalog: Catalog, topic: str, channel: str, *, start: log_acts.Target | None = None
) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()

    def act() -> Ticket:
        owner = catalog.topic(topic)
        outcome.created = channel not in owner.channels
        offset = None if start is None else log_acts.resolved(log_acts.log_store_of(owner), start)
        return catalog.create_channel(owner, channel, offset)

    return outcome, catalog.in_turn(topic, act)


def delete_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()
    return outcome, catalog.in_turn(topic, lambda: catalog.delete_topic(catalog.topic(topic), outcome))


def delete_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()

    def act() -> Ticket:
        one = catalog.channel(topic, channel)
        return catalog.delete_channel(catalog.topics[topic], one, outcome)

    return outcome, catalog.in_turn(topic, act)


def empty_topic(catalog: Catalog, topic: str, *, channels_too: bool = False) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()

    def act() -> Ticket:
        owner = catalog.topic(topic)
        store = owner.store
        upto = store.end_offset if isinstance(store, LogTopicStore) else None
        channels = list(owner.channels.values()) if channels_too else []
        is_frozen = upto is not None and store.positions().released is not None

        def written() -> Ticket:
            # How far a topic of the log has come while it does not flow is known to topology.json alone.
            return catalog.released(owner, upto) if is_frozen and upto is not None else DONE

        def prepared() -> Ticket:
            if not channels or not isinstance(store, LogTopicStore):
                return DONE
            # After topology.json: when the journal refuses now, the next start finds that the topic's messages went on
            # to its channels, and none is lost. The other way round, the channels' messages would be.
            ticket = store.prepare_empty_channels()
            if not is_frozen:
                return ticket
            return or_unknown(ticket, "topology.json was written, the channels' progress was not")

        # A journal that can't be written refuses it before anything is done.
        ready = after(after(store.synced(), written), prepared)
        return after(ready, lambda: _emptied(owner, upto, outcome, channels))

    return outcome, catalog.in_turn(topic, act)


def _prepared(channel: Channel) -> Ticket:
    """Done when it is durable that a channel is emptied; a disk queue is emptied without."""
    return channel.backlog.prepare_empty() if isinstance(channel.backlog, LogBacklog) else DONE


def _emptied(owner: Topic, upto: int | None, outcome: Outcome, channels: Sequence[Channel]) -> Ticket:
    dropped = owner.store.empty(upto)
    outcome.depth += dropped.depth
    for channel in channels:
        if not channel.is_deleted:
            outcome.add(channel.empty())
            outcome.channels += 1
    return or_unknown(owner.store.synced(), "messages were dropped, and syncing that failed")


def empty_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()

    def act() -> Ticket:
        one, store = catalog.channel(topic, channel), catalog.topics[topic].store

        def in_force() -> Ticket:
            outcome.add(one.empty())
            return or_unknown(store.synced(), "messages were dropped, and syncing that failed")

        return after(_prepared(one), in_force)

    return outcome, catalog.in_turn(topic, act)


def pause_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    return _pause_topic(catalog, topic, paused=True)


def unpause_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    return _pause_topic(catalog, topic, paused=False)


def _pause_topic(catalog: Catalog, topic: str, *, paused: bool) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()
    act = lambda: catalog.pause_topic(catalog.topic(topic), outcome, paused=paused)  # noqa: E731
    return outcome, catalog.in_turn(topic, act)


def pause_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    return _pause_channel(catalog, topic, channel, paused=True)


def unpause_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    return _pause_channel(catalog, topic, channel, paused=False)


def _pause_channel(catalog: Catalog, topic: str, channel: str, *, paused: bool) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = Outcome()
    act = lambda: catalog.pause_channel(catalog.channel(topic, channel), outcome, paused=paused)  # noqa: E731
    return outcome, catalog.in_turn(topic, act)


def requeue_in_flight(
    catalog: Catalog, topic: str, channel: str, *, client_key: int | None = None, message_id: str | None = None
) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    one = catalog.channel(topic, channel)
    encoded = None if message_id is None else message_id.encode("ascii", "replace")
    outcome = one.requeue_in_flight(client_key=client_key, message_id=encoded)
    return outcome, or_unknown(catalog.topics[topic].store.synced(), "messages were requeued, and syncing that failed")


def release_deferred(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = catalog.channel(topic, channel).release_deferred()
    return outcome, or_unknown(catalog.topics[topic].store.synced(), "messages were released, and syncing that failed")


def retry_topic(catalog: Catalog, topic: str, workload: Workload) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    owner = catalog.topic(topic)
    workload.retry_stalled(is_asked=owner)
    return owner.retry(), owner.store.synced()


def retry_channel(catalog: Catalog, topic: str, channel: str, workload: Workload) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    one = catalog.channel(topic, channel)
    workload.retry_stalled(is_asked=one)
    return one.retry(), catalog.topics[topic].store.synced()
