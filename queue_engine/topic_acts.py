"""Acts on topics and channels of either storage kind. Each returns what it did, and the ticket after which that is
durable.

What the names mean and what is raised is told at the engine's methods of the same names.
"""

from queue_engine import log_acts
from queue_engine.catalog import Catalog
from queue_engine.delivery.stats import Outcome
from queue_engine.errors import InvalidStorageError
from queue_engine.names import is_ephemeral
from queue_engine.stores import KINDS
from queue_engine.ticket import DONE, Ticket, all_of


def create_topic(catalog: Catalog, topic: str, *, storage: str = "") -> tuple[Outcome, Ticket]:
    if storage and storage not in KINDS:
        raise InvalidStorageError(f"storage kind {storage!r} does not exist: it can be {' or '.join(KINDS)}")
    is_new = topic not in catalog.topics
    if not is_new and storage and not is_ephemeral(topic) and catalog.topics[topic].store.kind != storage:
        raise InvalidStorageError(
            f"topic {topic} exists with storage kind {catalog.topics[topic].store.kind} and can't become {storage}"
        )
    _, ticket = catalog.topic_for(topic, storage)
    return Outcome(created=is_new), ticket


def create_channel(
    catalog: Catalog, topic: str, channel: str, *, start: log_acts.Target | None = None
) -> tuple[Outcome, Ticket]:
    owner = catalog.topic(topic)
    is_new = channel not in owner.channels
    if start is not None:
        log_acts.log_store_of(owner)
    one, ticket = catalog.channel_for(owner, channel)
    if is_new and start is not None:
        while owner.pump():
            pass  # the whole topic is its to choose from
        _, sought = log_acts.seek(owner, one, start)
        ticket = all_of((ticket, sought))
    return Outcome(created=is_new), ticket


def delete_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    durable = Ticket()
    outcome = catalog.drop(catalog.topic(topic), durable)
    return outcome, catalog.save_as(durable)


def delete_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    catalog.channel(topic, channel)
    owner = catalog.topic(topic)
    durable = Ticket()
    outcome = owner.delete_channel(channel, durable)
    if not owner.channels and is_ephemeral(topic):
        catalog.drop(owner)
    return outcome, catalog.save_as(durable)


def empty_topic(catalog: Catalog, topic: str, *, channels_too: bool = False) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    owner = catalog.topic(topic)
    dropped = owner.store.empty()
    depth, in_flight, deferred, channels = dropped.depth, 0, 0, 0
    if channels_too:
        for channel in owner.channels.values():
            emptied = channel.empty()
            depth += emptied.depth
            in_flight += emptied.in_flight
            deferred += emptied.deferred
            channels += 1
    outcome = Outcome(depth=depth, in_flight=in_flight, deferred=deferred, channels=channels)
    # How far a topic of the log has come while it does not flow is known to topology.json alone.
    is_frozen = owner.store.positions().released is not None
    return outcome, all_of((catalog.save() if is_frozen else DONE, owner.store.synced()))


def empty_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = catalog.channel(topic, channel).empty()
    return outcome, catalog.topics[topic].store.synced()


def pause_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    owner = catalog.topic(topic)
    owner.pause()
    return Outcome(depth=owner.store.depth), catalog.save()


def unpause_topic(catalog: Catalog, topic: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    owner = catalog.topic(topic)
    owner.unpause()
    return Outcome(depth=owner.store.depth), catalog.save()


def pause_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    one = catalog.channel(topic, channel)
    one.pause()
    return Outcome(depth=one.backlog.depth, in_flight=one.in_flight_count), catalog.save()


def unpause_channel(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    one = catalog.channel(topic, channel)
    one.unpause()
    return Outcome(depth=one.backlog.depth, in_flight=one.in_flight_count), catalog.save()


def requeue_in_flight(
    catalog: Catalog, topic: str, channel: str, *, client_key: int | None = None, message_id: str | None = None
) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    one = catalog.channel(topic, channel)
    encoded = None if message_id is None else message_id.encode("ascii", "replace")
    outcome = one.requeue_in_flight(client_key=client_key, message_id=encoded)
    return outcome, catalog.topics[topic].store.synced()


def release_deferred(catalog: Catalog, topic: str, channel: str) -> tuple[Outcome, Ticket]:
    catalog.check_open()
    outcome = catalog.channel(topic, channel).release_deferred()
    return outcome, catalog.topics[topic].store.synced()
