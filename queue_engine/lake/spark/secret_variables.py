"""Removes the variables that hold secrets from the environment of the pipeline's processes.

Java and Spark's Python processes inherit the environment of the process that starts them. Every process of the same
user can read it in /proc/PID/environ, and Java writes parts of it to its crash reports.
"""

import re
from collections.abc import Mapping, MutableMapping

TOKEN_VARIABLE = "PENSTOCK_HTTP_TOKEN"  # noqa: S105 - a name, not a token

_SECRET = re.compile(r"PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|API_?KEY|PRIVATE_?KEY", re.IGNORECASE)
# Spark needs its own secrets: spark-submit hands one over. The driver and the tasks log in to the lake's object store.
_NEEDED = ("SPARK_", "_SPARK_", "PYSPARK_", "_PYSPARK_", "AWS_", "AZURE_", "GOOGLE_")


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a process of the pipeline may inherit."""
    return {name: value for name, value in environment.items() if not _is_secret(name)}


def take_token(environment: MutableMapping[str, str]) -> str:
    """Remove all secrets, so that no later process inherits them. Returns the engine's token, "" without one."""
    token = environment.get(TOKEN_VARIABLE, "")
    for name in [name for name in environment if _is_secret(name)]:
        del environment[name]
    return token


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not name.startswith(_NEEDED)
