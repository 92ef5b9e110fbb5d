"""The Python packages that the pipeline needs and the server does not: the extra `pipeline`."""

import importlib.util

from queue_engine.vocabulary.installation import pipeline_command

NEEDED = ("pyspark", "pyarrow", "deltalake", "pandas")


def complaint_about_packages() -> str:
    """Which packages are missing, and the command that installs them; "" when none is missing. Imports none."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    verb = "is" if len(missing) == 1 else "are"
    return f"{', '.join(missing)} {verb} not installed. Install with: {pipeline_command()}"
