"""The paths about the server itself: probes, stats, metrics, this reference."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import JSON, NOTHING
from queue_engine.service.http.reference.declarations import Endpoint, Success
from queue_engine.service.monitoring.exposition import CONTENT_TYPE as METRICS

SERVER = {
    "/ping": Endpoint(
        "The health, for a person's alert.",
        (
            Success("OK"),
            Success("NOK and the reason, while something that has to be on the disk is not", status=500),
        ),
    ),
    "/livez": Endpoint("For a probe that restarts the process when no answer comes.", (Success("OK"),)),
    "/readyz": Endpoint(
        "For a probe that keeps clients away from a server that starts or stops.",
        (
            Success("OK, and a line for each problem"),
            Success("STOPPING; or starting, and where the start is", status=503),
        ),
    ),
    "/info": Endpoint(
        "Version, addresses and limits.", (Success("The server's own facts.", JSON, shapes.ref("Info")),)
    ),
    "/config/{opt}": Endpoint(
        "An option of the server. GET answers its value now: durations in nanoseconds, log_level as nsqd's number (1 "
        "debug, 2 info, 3 warning, 4 error, 5 fatal). PUT changes it until the next start.",
        (Success("The value, if it is a text."), Success("The value.", JSON, {})),
        body="the new value, with PUT: a list of addresses in JSON, or the word of a level",
        is_value=True,
        errors=(errors.OPTION_UNKNOWN, errors.VALUE_INVALID, errors.EXITING, errors.NOT_AUDITED),
    ),
    "/stats": Endpoint(
        "Stats of the server, its topics, channels and clients. A topic or channel that does not exist is left out.",
        (
            Success("The stats, with format=json.", JSON, shapes.ref("Stats")),
            Success("The stats for people, laid out as nsqd does."),
        ),
        (
            parameters.STATS_TOPIC,
            parameters.STATS_CHANNEL,
            parameters.FORMAT,
            parameters.INCLUDE_CLIENTS,
            parameters.INCLUDE_MEM,
            parameters.INCLUDE_BUCKETS,
        ),
        errors=(errors.EXITING,),
    ),
    "/metrics": Endpoint(
        "The stats for Prometheus.",
        (Success("Prometheus' text format, 0.0.4.", METRICS),),
        (parameters.METRICS_TOPIC,),
        errors=(errors.EXITING,),
    ),
    "/openapi.json": Endpoint(
        "This reference, as an OpenAPI document.",
        (Success("The document.", JSON, {"type": "object"}),),
        errors=(errors.EXITING,),
    ),
}

_OFF = (errors.DEBUG_OFF,)
# Only with --debug-endpoints.
DEBUG = {
    "/debug/pprof/": Endpoint("Which of these paths there are.", (Success("A path a line."),), errors=_OFF),
    "/debug/threads": Endpoint(
        "Each thread of the process with its stack.", (Success("The innermost call is last."),), errors=_OFF
    ),
    "/debug/tasks": Endpoint(
        "Each task of the engine's loop with where it waits.", (Success("The innermost call is last."),), errors=_OFF
    ),
    "/debug/memory": Endpoint(
        "The objects in memory by type; the lines that took it, if the server was started with PYTHONTRACEMALLOC=1. "
        "Takes about a second per million objects.",
        (Success("Counts, bytes and types."),),
        errors=_OFF,
    ),
    "/debug/gc": Endpoint(
        "The work of Python's collector since the start.", (Success("A line for each generation."),), errors=_OFF
    ),
    "/debug/freememory": Endpoint(
        "Collect garbage and give free memory back to the system. The server waits meanwhile.",
        (Success("Nothing: it is done.", NOTHING),),
        errors=_OFF,
    ),
    "/debug/setblockrate": Endpoint(
        "Refused: it would set Go's profile of blocking calls.", (), errors=(*_OFF, errors.NO_BLOCK_PROFILE)
    ),
}
