"""What Spark finds by itself: installed, this file is the top-level module `pyspark_penstock` (pyproject.toml).

Spark imports the top-level modules named `pyspark_*` in a process of its own when a session meets the first format it
does not have, and registers the class `DefaultSource` of each. So `format("penstock")` needs no registration.
"""

from contextlib import suppress

# One module that can't be imported would cost the session the sources of all others. Without pyarrow, or with a Spark
# before 4.2, this one has none.
with suppress(ImportError):
    from queue_engine.lake.source.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource"]
