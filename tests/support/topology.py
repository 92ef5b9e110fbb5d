"""The topics and channels of a data directory, as topology.json would have them after a merge, and engines on it."""

import json
import tarfile
from pathlib import Path
from typing import Any

import orjson

from queue_engine.engine.engine import Engine
from queue_engine.engine.topology.files import TopologyFiles
from queue_engine.engine.topology.topology import Topology
from queue_engine.storage.disk.background import Background, Backgrounds, InlineBackground
from queue_engine.storage.disk.files import Files
from tests.support.clock import ManualClock
from tests.support.storage_kinds import engine_options

CHANGES = "topology.changes"
_FIXTURES = Path(__file__).parent.parent / "storage" / "fixtures"


def unpack_897736b(directory: Path) -> None:
    """The data directories `stopped` and `killed` that commit 897736b left, and `expected.json`."""
    with tarfile.open(_FIXTURES / "data_directory_897736b.tar.gz") as archive:
        # 3.11.2 has no filters, and from 3.12 on a warning where none is chosen.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(directory)


def load_topology(directory: Path) -> Topology:
    """The topics and channels of a data directory."""
    return TopologyFiles(str(directory), Files()).read().state


def written(directory: Path) -> dict[str, Any]:
    """The document: topology.json with the changes since."""
    document: dict[str, Any] = orjson.loads(load_topology(directory).to_json())
    return document


def file_of(directory: Path) -> dict[str, Any]:
    """topology.json alone."""
    document: dict[str, Any] = orjson.loads((directory / "topology.json").read_bytes())
    return document


def open_engine(
    directory: Path,
    *,
    files: Files | None = None,
    background: Background | None = None,
    clock: ManualClock | None = None,
) -> Engine:
    engine = Engine(
        engine_options(data_path=str(directory)),
        clock=clock or ManualClock(),
        files=files or Files(),
        backgrounds=Backgrounds.of(background or InlineBackground()),
    )
    engine.open()
    return engine


def put_file(directory: Path, document: object, name: str = "topology.json") -> Path:
    path = directory / name
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return path
