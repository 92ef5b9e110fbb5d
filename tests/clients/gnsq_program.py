"""gnsq, the gevent client, as a program of its own: gevent patches the whole process it runs in.

publish PORT TOPIC [--batch N] [--slow-until-lost]
                                   bodies come on standard input, one a line; says the number of each batch's last line
                                   once it is acknowledged, and publishes again what a lost connection left open. It
                                   may be slow until then: 50 batches a second
consume PORT TOPIC CHANNEL [--requeue-ms N | --time-out] [--lookup]
                                   says a line of JSON a message; with one of the first, only the second attempt is
                                   finished. --lookup: PORT is the HTTP port of an nsqlookupd that knows the servers

--features JSON                    what both ask for in IDENTIFY, as gnsq's own options
"""

from gevent import monkey

monkey.patch_all()

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402
import gnsq  # noqa: E402


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def publish_with(features: dict[str, object], port: int, topic: str, batch: int) -> None:
    """On a connection with these features: gnsq's own Producer fails at the OK inside a layer, which it did not ask
    for."""
    connection = gnsq.NsqdTCPClient("127.0.0.1", port, **features)
    connection.connect()
    connection.identify()
    bodies = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    for at in range(0, len(bodies), batch):
        some = bodies[at : at + batch]
        connection.multipublish(topic, some)
        connection.check_ok()
        say(str(at + len(some)))
    connection.close_stream()


def publish(address: str, topic: str, batch: int, is_slow: bool) -> None:
    producer = gnsq.Producer(address, max_backoff_duration=1)
    producer.start()
    bodies = [line.rstrip(b"\n") for line in sys.stdin.buffer]
    for at in range(0, len(bodies), batch):
        some = bodies[at : at + batch]
        while True:
            try:
                if batch == 1:
                    producer.publish(topic, some[0], timeout=0.2)
                else:
                    producer.multipublish(topic, some, timeout=0.2)
                break
            except (gnsq.errors.NSQException, KeyError):
                # The connection went away; gnsq makes a new one by itself.
                is_slow = False
                gevent.sleep(0.05)
        say(str(at + len(some)))
        if is_slow:
            gevent.sleep(0.02)
    producer.close()


def consume(
    address: str,
    topic: str,
    channel: str,
    requeue_ms: int | None,
    time_out: bool,
    has_lookup: bool,
    features: dict[str, object],
) -> None:
    where = {"lookupd_http_addresses": [address]} if has_lookup else {"nsqd_tcp_addresses": [address]}
    consumer = gnsq.Consumer(
        topic,
        channel,
        max_in_flight=100,
        max_tries=10,
        max_backoff_duration=1,
        backoff_on_requeue=False,
        lookupd_poll_interval=1,
        **where,
        **features,
    )

    @consumer.on_message.connect
    def handler(_: gnsq.Consumer, message: gnsq.Message) -> None:
        message.enable_async()
        say(json.dumps([message.attempts, time.monotonic(), message.body.decode("latin-1")]))
        if message.attempts == 1 and time_out:
            return
        if message.attempts == 1 and requeue_ms is not None:
            message.requeue(requeue_ms)
        else:
            message.finish()

    consumer.start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["publish", "consume"])
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("channel", nargs="?")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--slow-until-lost", action="store_true")
    parser.add_argument("--requeue-ms", type=int)
    parser.add_argument("--time-out", action="store_true")
    parser.add_argument("--lookup", action="store_true")
    parser.add_argument("--features", type=json.loads, default={})
    given = parser.parse_args()
    where, wanted = f"127.0.0.1:{given.port}", given.features
    if given.kind == "publish":
        if wanted:
            publish_with(wanted, given.port, given.topic, given.batch)
        else:
            publish(where, given.topic, given.batch, given.slow_until_lost)
    else:
        consume(where, given.topic, given.channel, given.requeue_ms, given.time_out, given.lookup, wanted)
