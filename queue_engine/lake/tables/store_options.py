"""Options by which pyarrow and delta-rs reach an object store, without its credentials."""

import os
from collections.abc import Mapping
from typing import Any

from pyarrow import fs

from queue_engine.vocabulary.errors import StorePlaceError

# scheme → how the libraries' documents call it
SCHEMES = {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}
S3_REGION = "us-east-1"
CONNECT_TIMEOUT_S = 5
# pyarrow gives a try up when no byte came for so long; of a PUT it notices some 6 s later.
SILENCE_S = 10
# delta-rs gives a try up by then, whatever has come; it begins no other one later.
REQUEST_TIMEOUT_S = 30
TRIES = 3


def scheme_of(place: str) -> str:
    """ "" for a local path, else one of SCHEMES. Raises StorePlaceError."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return ""
    if scheme not in SCHEMES:
        raise StorePlaceError(
            f"{place} has the scheme {scheme}: a lake is a path, or begins with s3://, gs:// or az://"
        )
    bucket = rest.partition("/")[0]
    if not bucket or "@" in bucket or "?" in rest or "#" in rest:
        raise StorePlaceError(
            f"{scheme}://… needs the form {scheme}://BUCKET/PREFIX, without credentials or options: those come from the"
            " environment"
        )
    return scheme


def delta_options(scheme: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """delta-rs's storage options. It reads others, credentials among them, from the environment itself."""
    options = {
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "timeout": f"{REQUEST_TIMEOUT_S}s",
        "max_retries": str(TRIES - 1),
        "retry_timeout": f"{REQUEST_TIMEOUT_S}s",
    }
    if scheme == "s3":
        # A commit is made only when no other writer has made one of its number.
        options["conditional_put"] = "etag"
        options["AWS_REGION"] = _region(environment)
        if endpoint := environment.get("AWS_ENDPOINT_URL"):
            options["AWS_ENDPOINT_URL"] = endpoint
            # pyarrow takes the scheme alone; delta-rs refuses http without this option.
            if endpoint.lower().startswith("http://"):
                options["AWS_ALLOW_HTTP"] = "true"
    return options


def store_filesystem(scheme: str, environment: Mapping[str, str] = os.environ) -> Any:
    """pyarrow's file system for a store."""
    if scheme == "s3":
        endpoint = environment.get("AWS_ENDPOINT_URL") or ""
        protocol, _, host = endpoint.rpartition("://")
        return fs.S3FileSystem(
            region=_region(environment),
            endpoint_override=host.rstrip("/") or None,
            scheme=protocol or "https",
            # A small file is one request.
            allow_delayed_open=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            request_timeout=SILENCE_S,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=TRIES),
        )
    if scheme == "gs":
        return fs.GcsFileSystem()
    return fs.AzureFileSystem(account_name=environment.get("AZURE_STORAGE_ACCOUNT_NAME", ""))


def _region(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or S3_REGION
