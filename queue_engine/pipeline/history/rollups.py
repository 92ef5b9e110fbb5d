"""The two jobs of the history: a stream that makes what is fresh, a compaction of every day that is over."""

from queue_engine.pipeline.history.compaction import compact
from queue_engine.pipeline.history.rollup_stream import start_rollup_stream

__all__ = ["compact", "start_rollup_stream"]
