"""The answer of `GET /metrics`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from queue_engine.delivery.stats import EngineSnapshot
from queue_engine.service.monitoring.console_figures import Console, ConsoleFigures
from queue_engine.service.monitoring.disk_samples import add_disk_usage
from queue_engine.service.monitoring.disk_usage import DiskUsage, DiskUsageWatch
from queue_engine.service.monitoring.engine_samples import COSTS, add_engine, add_topics
from queue_engine.service.monitoring.exposition import Exposition
from queue_engine.service.monitoring.process_figures import DiskRoom, ProcessFigures, disk_room, process_figures
from queue_engine.service.monitoring.selection import select
from queue_engine.service.monitoring.server_samples import (
    add_certificates,
    add_console,
    add_disk_room,
    add_lookupds,
    add_process,
    add_refused_connections,
)
from queue_engine.service.monitoring.total_samples import add_left_out, add_totals


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of the engine, at one moment. room, usage: None where the disk can't be read. certificates: when
    the one of each listener of the engine expires, Unix seconds."""

    process: ProcessFigures
    room: DiskRoom | None
    usage: DiskUsage | None
    console: ConsoleFigures
    certificates: Mapping[str, float] = field(default_factory=dict)


class SurroundingsReader:
    """Reads them. Asks the disk and reads files: belongs to one thread, which is not the engine's."""

    def __init__(self, data_path: str) -> None:
        self._data_path = data_path
        self._usage = DiskUsageWatch(data_path)

    def read(self, console: Console, certificates: Mapping[str, float] | None = None) -> Surroundings:
        """The present surroundings, but for the usage of the disk, which may be some seconds old."""
        room, usage = disk_room(self._data_path), self._usage.usage()
        return Surroundings(process_figures(), room, usage, console.figures(), certificates or {})


def metrics_text(
    snapshot: EngineSnapshot,
    around: Surroundings,
    *,
    engine_cpu_s: float,
    patterns: Sequence[str] = (),
    series_max: int = 0,
) -> bytes:
    """The whole answer. engine_cpu_s: processor time of the engine's thread. patterns, series_max: as of `select`."""
    to = Exposition()
    selection = select(snapshot.topics, patterns, series_max, COSTS)
    add_engine(to, snapshot)
    add_process(to, around.process, engine_cpu_s)
    add_disk_room(to, around.room)
    if around.usage is not None:
        add_disk_usage(to, around.usage, snapshot.topics, selection.topics)
    add_refused_connections(to, snapshot.refused_connections, around.console.refused_connections)
    add_certificates(to, around.certificates, around.console.certificate_expires_s)
    add_lookupds(to, snapshot.lookupds)
    add_console(to, around.console)
    add_totals(to, snapshot)
    add_left_out(to, selection)
    add_topics(to, selection, snapshot.taken_at_ns, snapshot.pause_limit_ms)
    return to.text()
