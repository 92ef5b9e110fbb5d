"""Users, logged-in browsers, the real engine behind the console's views, and its figures in the hub."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from html import unescape
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.auth.hashers import make_password
from django.test import Client

from admin_console.accounts.models import User
from admin_console.cluster.calls.chosen_addresses import ChosenAddresses
from admin_console.cluster.calls.options import NO_ADDRESSES, PACE, ClusterOptions, Pace
from admin_console.cluster.cluster import Cluster, get_cluster, set_cluster
from admin_console.cluster.merging.merger import Merger
from admin_console.gateway.embedded import EmbeddedGateway, identity_of
from admin_console.gateway.gateway import set_gateway
from admin_console.gateway.pipeline import Pipeline, set_pipeline
from admin_console.hub.hub import get_hub
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.clock import NS_PER_S
from queue_engine.vocabulary.options.addresses import joined
from tests.support.storage_kinds import engine_options

_mergers: WeakKeyDictionary[Cluster, Merger] = WeakKeyDictionary()
PASSWORD = "correct horse battery staple"


_hash_of = cache(make_password)


def make_user(username: str = "ada", role: Role = Role.ADMIN, password: str = PASSWORD) -> User:
    """A user in the test database. Each password is hashed once: the thread for that waits for all others."""
    user = User(username=username, role=role, password=_hash_of(password))
    user.save(force_insert=True)
    return user


def client_of(user: User, **kwargs: Any) -> Client:
    """A browser in which `user` is logged in; CSRF is enforced as in the product when the test wants it."""
    client = Client(**kwargs)
    client.force_login(user)
    return client


@contextmanager
def console_engine(
    data_path: Path, *, pace: Pace = PACE, http_address: str = "127.0.0.1:0", **options: Any
) -> Iterator[EngineRunner]:
    """A running engine that the console's gateway leads to. The hub knows nothing before it and nothing after it. pace:
    of reading other nodes."""
    settled = engine_options(tcp_address="127.0.0.1:0", http_address=http_address, data_path=str(data_path), **options)
    runner = EngineRunner(settled)
    runner.start()
    set_gateway(EmbeddedGateway(runner, settled))
    set_pipeline(Pipeline(data_path / "pipeline"))
    own = partial(identity_of, runner, settled)
    cluster = Cluster(ClusterOptions(), ChosenAddresses(data_path, NO_ADDRESSES), own, pace)
    cluster.start()
    set_cluster(cluster)
    get_hub().forget_all()
    try:
        yield runner
    finally:
        get_hub().forget_all()
        set_cluster(None)
        cluster.stop()
        set_pipeline(None)
        set_gateway(None)
        runner.stop()


@contextmanager
def orders_engine(data_path: Path) -> Iterator[EngineRunner]:
    """`console_engine` with the topic orders, its channel billing, and 5 messages published."""
    with console_engine(data_path) as runner:
        runner.calls.create_topic("orders").result(30)
        runner.calls.create_channel("orders", "billing").result(30)
        runner.calls.publish("orders", [b"m%d" % number for number in range(5)]).result(30)
        yield runner


def see(engine: EngineRunner, *, for_s: int = 0) -> EngineSnapshot:
    """Have the hub take the engine's figures of this moment, as if they stayed for so many seconds; merged with those
    of other nodes as they are now, where the cluster has any."""
    taken: EngineSnapshot = engine.calls.stats(include_clients=False).result(10)
    cluster = get_cluster()
    for later_s in range(for_s + 1):
        at_ns = taken.taken_at_ns + later_s * NS_PER_S
        own = replace(taken, taken_at_ns=at_ns)
        if cluster is None or not cluster.state.addresses.has_any:
            get_hub().write(own)
            continue
        merger = _mergers.setdefault(cluster, Merger(lambda: joined(*engine.http_address)))
        get_hub().write(merger.tick(own, cluster.state, at_ns))
    return taken


def words(html: str) -> str:
    """What is read: without elements and with single spaces. Templates of coming rows are not read."""
    html = re.sub(r"<(template|script|noscript)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
