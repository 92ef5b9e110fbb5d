"""The answer of `GET /metrics`."""

from typing import NamedTuple

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.monitoring.console_figures import Console, ConsoleFigures
from queue_engine.service.monitoring.engine_samples import add_engine, add_topics
from queue_engine.service.monitoring.exposition import Exposition
from queue_engine.service.monitoring.process_figures import DiskRoom, ProcessFigures, disk_room, process_figures
from queue_engine.service.monitoring.server_samples import (
    add_console,
    add_disk_room,
    add_process,
    add_refused_connections,
)


class Surroundings(NamedTuple):
    """What surrounds the engine, at one moment. room: None where the disk can't be asked."""

    process: ProcessFigures
    room: DiskRoom | None
    console: ConsoleFigures


def surroundings_of(data_path: str, console: Console) -> Surroundings:
    """As of now. Asks the disk and may read files: not for the engine's thread."""
    return Surroundings(process_figures(), disk_room(data_path), console.figures())


def metrics_text(snapshot: EngineSnapshot, around: Surroundings, *, engine_cpu_s: float) -> bytes:
    """The whole answer. engine_cpu_s: processor time of the engine's thread."""
    to = Exposition()
    add_engine(to, snapshot)
    add_process(to, around.process, engine_cpu_s)
    add_disk_room(to, around.room)
    add_refused_connections(to, snapshot.refused_connections, around.console.refused_connections)
    add_console(to, around.console)
    add_topics(to, snapshot.topics, snapshot.taken_at_ns)
    return to.text()
