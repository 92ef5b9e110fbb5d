"""The data source for Spark: installed, this file is the top-level module `pyspark_penstock` (pyproject.toml).

Spark imports the top-level modules named `pyspark_*` in a process of its own when a session meets the first format it
does not have, and registers the class `DefaultSource` of each. So `format("penstock")` needs no registration.

It is also where programs of Spark import from: the names here stay, wherever the modules behind them go.
`DefaultSource` is the data source, for `spark.dataSource.register`; `make_session` makes a session with all that the
source needs set.
"""

from contextlib import suppress
from typing import Any

# One module that can't be imported would cost the session the sources of all others. Without pyarrow, or with a Spark
# before 4.2, this one has none.
with suppress(ImportError):
    from queue_engine.lake.source.data_source import PenstockDataSource as DefaultSource

__all__ = ["DefaultSource", "make_session"]


def make_session(app_name: str, **settings: Any) -> Any:
    """A session of Spark for the program `app_name`; the settings are those of `queue_engine.lake.spark.session`."""
    from queue_engine.lake.spark import session  # not in the process that only looks for the source

    return session.make_session(app_name, **settings)
