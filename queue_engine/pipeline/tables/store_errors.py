"""Makes one sentence of an error of delta-rs, pyarrow or the system about a store."""

import errno

from queue_engine.vocabulary.errors import PipelineError, StoreError, StoreFullError, TableFormatError

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_worth_trying_again(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    return not isinstance(error, OSError) or error.errno is None


def table_error(error: BaseException, place: str) -> PipelineError:
    """The error of `vocabulary/errors.py` for an error about the table or store at `place`."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return StoreFullError(f"{place}: there is no room left; make room, and the job goes on by itself")
    if type(error).__name__ == "DeltaProtocolError":
        return TableFormatError(f"{place} has features that this version can't write: {error}")
    return StoreError(f"{place}: {error}")
