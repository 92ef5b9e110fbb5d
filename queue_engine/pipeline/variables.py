"""The environment variables that the pipeline's commands read, besides those that the server's options have."""

MASTER_VARIABLE = "PENSTOCK_SPARK_MASTER"
ENGINE_URL_VARIABLE = "PENSTOCK_ENGINE_URL"
READ_FROM_VARIABLE = "PENSTOCK_READ_FROM"
# Topics, separated by commas, of which replayed messages are archived like others; of all others they are left out.
ARCHIVE_REPLAYED_VARIABLE = "PENSTOCK_ARCHIVE_REPLAYED"
