"""Makes a home for Spark without the zip files that hold another copy of its Python packages.

Spark puts `<home>/python/lib/pyspark.zip` first on the path of the Python processes that it starts, and Python compiles
every module from a zip file again. A data source starts eight such processes before its first row; without the zip
files they import the installed package, which is compiled: half a second less each.
"""

import os
from pathlib import Path

import pyspark

# The folders that Spark's launcher looks for in its home.
_NAMES = ("bin", "jars")


def lean_spark_home(directory: Path) -> Path:
    """Make `directory` a home of the installed pyspark, by links, and return it. Raises OSError."""
    package = Path(pyspark.__file__).parent
    directory.mkdir(parents=True, exist_ok=True)
    for name in _NAMES:
        # Two processes may do this at the same time, and pyspark may be another version than last time.
        temporary = directory / f"{name}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(package / name)
        os.replace(temporary, directory / name)
    return directory
