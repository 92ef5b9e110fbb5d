"""The environment variables that the pipeline's commands read, besides those that the server's options have."""

MASTER_VARIABLE = "PENSTOCK_SPARK_MASTER"
ENGINE_URL_VARIABLE = "PENSTOCK_ENGINE_URL"
READ_FROM_VARIABLE = "PENSTOCK_READ_FROM"
ARCHIVE_REPLAYED_VARIABLE = "PENSTOCK_ARCHIVE_REPLAYED"

HELP = {
    MASTER_VARIABLE: "`--master` of `pipeline run`: Spark's master",
    ENGINE_URL_VARIABLE: "`--engine-url` of `pipeline run`: the engine's HTTP API",
    READ_FROM_VARIABLE: "`--read-from` of `pipeline run`: where messages are read, auto, files or http",
    ARCHIVE_REPLAYED_VARIABLE: (
        "topics, separated by commas, of which replayed messages are archived like others; of all others they are "
        "left out"
    ),
}
