"""How far an import has come, in the directory that it reads.

    penstock-import.json
    {"version": 1, "import": "5f1c…", "topics": {
      "orders": {"state": "begun", "files": "9c0d1e2f", "number": 7, "paused": ["billing"],
                 "damaged": []}}}

`import` is part of every batch key: the same message of another directory is another message. `state` is "begun" until
all messages are on the server's disk, "copied" until the files are moved, then "moved". `files` is the checksum of the
names and sizes of the topic's files and of its meta files: another one means that a server ran in between. `number` is
the topic's number on the server. `paused` has the channels that the import has paused and resumes at its end, `damaged`
the files of which a part could not be read.
The file is replaced as a whole and synced.
"""

import os
import secrets
from dataclasses import asdict, dataclass, field

import orjson

from queue_engine.storage.disk.files import Files
from queue_engine.vocabulary.errors import NsqdImportError

STATE_NAME = "penstock-import.json"
VERSION = 1
BEGUN, COPIED, MOVED = "begun", "copied", "moved"
_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class TopicProgress:
    """One topic of the file, as drawn above."""

    state: str
    files: str
    number: int
    paused: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


class ImportState:
    """The file of one directory. name: of this import, 32 hex digits."""

    def __init__(self, directory: str, files: Files) -> None:
        """Raises NsqdImportError when there is a file that can't be read."""
        self._path = os.path.join(directory, STATE_NAME)
        self._files = files
        self.name = secrets.token_hex(16)
        self.topics: dict[str, TopicProgress] = {}
        for name in files.names_starting_with(directory, f"{STATE_NAME}."):
            files.unlink_quietly(os.path.join(directory, name))  # left by a kill while this file was replaced
        data = files.read_whole(self._path, _BYTES_MAX)
        if data is None:
            return
        try:
            document = orjson.loads(data)
            if document["version"] != VERSION:
                raise ValueError(f"its version is {document['version']} and this program reads {VERSION}")
            self.name = str(document["import"])
            self.topics = {name: TopicProgress(**one) for name, one in document["topics"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise NsqdImportError(
                f"{self._path} can't be read: {exc}; nothing was changed. Without that file the import begins anew, "
                "and messages copied before come twice"
            ) from exc

    def save(self) -> None:
        """Durable when it returns. Raises OSError."""
        topics = {name: asdict(one) for name, one in self.topics.items()}
        document = {"version": VERSION, "import": self.name, "topics": topics}
        self._files.replace(self._path, orjson.dumps(document, option=orjson.OPT_INDENT_2))
