"""Reads the topics and channels of a data directory, as topology.json would have them after a merge."""

from pathlib import Path
from typing import Any

import orjson

from queue_engine.disk.files import Files
from queue_engine.topology.files import TopologyFiles
from queue_engine.topology.topology import Topology


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
