"""The tree of errors. The class says whose fault it is; the text names the value and the limit; some have a wire
code."""


class PenstockError(Exception):
    """The root of all errors that the engine raises on purpose."""


class ProtocolError(PenstockError):
    """A client broke the protocol, or its command can't be done; it gets an error frame.

    code: the wire code, such as "E_INVALID". fatal: whether the connection closes after it.
    """

    def __init__(self, code: str, description: str, *, fatal: bool = True) -> None:
        super().__init__(f"{code} {description}" if description else code)
        self.code = code
        self.description = description
        self.fatal = fatal

    @property
    def payload(self) -> bytes:
        """The bytes behind the frame type."""
        return str(self).encode()


class RequestError(PenstockError):
    """A request to the engine can't be done: a name, a value or a state does not fit; nothing was changed.

    code: the word that the HTTP API answers with, such as "TOPIC_NOT_FOUND". finer_code: one that says more than code,
    beside it; "" for none.
    """

    code = "INVALID_REQUEST"
    finer_code = ""


class UnknownOptionError(RequestError):
    """There is no such option, or it can't be read or changed while the server runs."""

    code = "INVALID_OPTION"


class InvalidOptionValueError(RequestError):
    """An option can't have this value; the text names both."""

    code = "INVALID_VALUE"


class InvalidTopicError(RequestError):
    code = "INVALID_TOPIC"


class ReservedTopicError(InvalidTopicError):
    """The topic is the server's own."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"topic name {name} is reserved: the server keeps its own samples there, which can only be read"
        )


class InvalidChannelError(RequestError):
    code = "INVALID_CHANNEL"


class InvalidStorageError(RequestError):
    """There is no such storage kind, or the topic has another."""

    code = "INVALID_STORAGE"


class TopicNotFoundError(RequestError):
    code = "TOPIC_NOT_FOUND"


class ChannelNotFoundError(RequestError):
    code = "CHANNEL_NOT_FOUND"


class TopicChangedError(RequestError):
    """The topic of this name has another number than the request names: the topic was deleted, and perhaps created
    anew."""

    code = "TOPIC_CHANGED"


class LakeChangedError(RequestError):
    """A pipeline cursor belongs to another lake than the request names: the topic is archived there."""

    code = "LAKE_CHANGED"


class BatchKeyConflictError(RequestError):
    """A batch key was used before, for other content."""

    code = "BATCH_KEY_CONFLICT"


class LeaseNotFoundError(RequestError):
    """There is no such lease on the log: it never existed, expired, was released, or its topic was deleted."""

    code = "LEASE_NOT_FOUND"


class NotOwnReaderError(RequestError):
    """A lease or cursor belongs to another maker, and the token may not administer; the text names both."""

    code = "NOT_ALLOWED"


class InvalidCursorError(RequestError):
    code = "INVALID_CURSOR"


class CursorNotFoundError(RequestError):
    """There is no such pipeline cursor: never created, deleted, or gone with its topic."""

    code = "CURSOR_NOT_FOUND"


class PauseError(RequestError):
    """A pause can't have this reason or end, or a resume this ramp; the text names the value and the limit."""


class QuarantineError(RequestError):
    """A quarantine can't have this limit, or a redrive this rate, or there is one already, or none; the text says."""


class NotInFlightError(RequestError):
    """The id is not in flight: never was, already finished, or timed out."""

    code = "NOT_IN_FLIGHT"


class NotOwnerError(RequestError):
    """The message is in flight to another client."""

    code = "NOT_OWNER"


class LimitError(RequestError):
    """A limit would be passed; the text names the value and the limit."""

    code = "LIMIT_REACHED"


class QuotaError(LimitError):
    """A client publishes faster than its quota lets it.

    wait_ms: how long until the quota has room for the same publish.
    """

    code = "QUOTA_EXCEEDED"

    def __init__(self, text: str, wait_ms: int) -> None:
        super().__init__(text)
        self.wait_ms = wait_ms


class OffsetTooHighError(LimitError):
    """The offset is beyond the topic's end."""

    finer_code = "OFFSET_BEYOND_END"


class OffsetTooLowError(LimitError):
    """The log has removed the message of that offset."""

    finer_code = "OFFSET_GONE"


class CountsChangedError(RequestError):
    """There is much more to remove than the request expects; the text has both counts."""

    code = "COUNTS_CHANGED"


class TrashNotFoundError(RequestError):
    """There is no such entry in the trash: it was restored, deleted for good, expired, or given up for room."""

    code = "TRASH_NOT_FOUND"


class TrashConflictError(RequestError):
    """An entry of the trash can't be restored now; the text names the first step."""

    code = "TRASH_CONFLICT"


class FencedError(RequestError):
    """The topic or channel stopped after an unexpected error, which the text names. The request was
    not done, or it is unknown whether it was; an operator can let the topic or channel try again."""

    code = "FENCED"


class ClosedError(PenstockError):
    """The engine, topic or queue is closing; the text is nsqd's word for it."""

    def __init__(self, text: str = "exiting") -> None:
        super().__init__(text)


class StorageError(PenstockError):
    """The disk refused; the data that was to be written is not acknowledged."""


class NoRoomError(StorageError):
    """The disk is full, for now: nothing of the publish is stored; everything else goes on."""


class SegmentUnreadableError(StorageError):
    """A file of the log can't be read at a place; the text names both. path: of the file."""

    def __init__(self, path: str, position: int, error: OSError) -> None:
        super().__init__(f"{path} can't be read at {position}: {error}")
        self.path = path


class CorruptError(StorageError):
    """Stored bytes changed; the text says file, position, found and expected."""


class NewerFormatError(StorageError):
    """A file of the data directory has a format version that this version of Penstock does not read."""

    def __init__(self, part: str, version: int, newest: int) -> None:
        """part: the file, or a part of it. version: its own. newest: the newest version that can be read."""
        super().__init__(
            f"{part} has format version {version}, and this version of Penstock reads versions up to {newest}. "
            "Nothing was changed. Start the version of Penstock that wrote it, or restore a backup."
        )
        self.part = part
        self.version = version
        self.newest = newest


class DirectoryLockedError(StorageError):
    """Another process holds the data directory."""


class TopologyError(StorageError):
    """topology.json can't be read or written; the file is left as it is."""


class NewerTopologyError(TopologyError):
    """A newer version wrote topology.json or topology.changes: this version neither reads nor repairs them."""


class OutcomeUnknownError(StorageError):
    """An act was written and the disk did not confirm it: the next start may find it done, or not."""


class OptionsError(PenstockError):
    """Options out of range: every complaint, one a line."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = complaints


class FlagError(PenstockError):
    """A daemon's command line or configuration file can't be read; the text names the flag and its value."""


class NsqdImportError(PenstockError):
    """A topic or a directory of nsqd can't be imported; the text says why. Its files are as they were."""


class PipelineError(PenstockError):
    """A job of the data pipeline can't go on; the text says why, where, and how to mend it."""


class QueryError(PipelineError):
    """A query of archive and history was refused or failed; the text says why, with the value and the limit."""


class UnreadableSampleError(PipelineError):
    """A message of the samples' topic is not a sample that this version can read."""


class LakeHeldError(PipelineError):
    """Another process holds the lake; the text names it."""


class LakeDamagedError(PipelineError):
    """A manifest of the lake is damaged; it is left as it is."""


class NotConvertedError(PipelineError):
    """Archive or history were written by an earlier version, and wait for the command that the text names."""


class StorePlaceError(PipelineError):
    """A place for tables is neither a path nor a URL of a store that Penstock can use; the text lists the possible
    ones."""


class StoreError(PipelineError):
    """A request to a store of tables failed; the text names the place and the remedy. A job waits and
    tries again."""


class StoreUnreachableError(StoreError):
    """No answer came from the store: it is down, the address is wrong, or the network is cut."""


class StoreRefusedError(StoreError):
    """The store refused the credentials or their rights; or there is no such bucket."""


class StoreBusyError(StoreError):
    """The store wants fewer requests, or other writers commit to the table all the time."""


class StoreFullError(StoreError):
    """The store or the disk has no room left."""


class CommitUnknownError(StoreError):
    """Whether a commit is in the table could not be found out: the same commit, tried again, finds out."""


class TableError(PipelineError):
    """A table can't be used as it is; nothing was changed. The text names the table and the remedy."""


class TableMissingError(TableError):
    """There is no table, or not the version of it."""


class ArchiveLostError(TableError):
    """The table of an archive is gone, or ends before a place that it had reached; an operator decides how to go on."""


class ArchiveFilesMissingError(ArchiveLostError):
    """Files of the table of an archive are gone."""


class ForeignFileError(TableError):
    """A table names a file that does not lie below it."""


class TableDamagedError(TableError):
    """A commit of the table's log is missing or can't be read, and it is not the last one."""


class TableCheckpointError(TableError):
    """A checkpoint of the table's log is damaged, and the commits that it stands for are gone."""


class TableSchemaError(TableError):
    """The table has other columns, or other partitions, than this version writes."""


class TableFormatError(TableError):
    """Another program has switched on a feature of the table that this version can't write."""


class TableTransactionError(TableError):
    """Another writer has moved the table on: its transaction is neither where this commit begins nor where it ends."""


class DataFileMissingError(TableError):
    """A data file is not there, or not with its size, when it is to be committed or replaced."""


class JavaMissingError(PipelineError):
    """There is no Java that Spark can run on; the text names the Java found and the command that installs one."""


class EngineUnreachableError(PipelineError):
    """No answer came from the queue engine's HTTP API: it is down, the address is wrong, or it took too long."""


class EngineRefusedError(PipelineError):
    """The queue engine answered a job's request with an error that no other class here stands for.

    status: of the HTTP answer. code: the API's word, such as "INVALID_TOPIC".
    """

    def __init__(self, text: str, status: int, code: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class TopicMissingError(PipelineError):
    """There is no topic of that name."""


class NotALogTopicError(PipelineError):
    """The topic's storage kind removes messages that were delivered: a job can't read it."""


class TopicReplacedError(PipelineError):
    """The topic was deleted and made anew: offsets of the old one mean nothing in the new one."""


class OtherLakeError(PipelineError):
    """The topic is archived to another lake; the text names both."""


class OffsetBeyondEndError(PipelineError):
    """An offset beyond the topic's end: the log lost its end, or the offset is another topic's."""


class OffsetGoneError(PipelineError):
    """The log has removed the message of an offset."""


class LeaseLostError(PipelineError):
    """A lease ended while its files were read: they may have changed, so the result is not used."""


class SegmentMissingError(PipelineError):
    """A leased segment file is not where it should be, and the read may not fall back on HTTP."""


class BatchConflictError(PipelineError):
    """A batch key was used before, for other messages."""


class ReadOptionError(PipelineError):
    """An option of the data source is missing or out of range; the text names it, its value and the possible ones."""


class ExpressionError(PipelineError):
    """An expression is not valid; the text names the wrong part, its character, and the possible parts."""


class ArchiveMismatchError(PipelineError):
    """The staged archive does not have every message exactly once; all of it was dropped."""
