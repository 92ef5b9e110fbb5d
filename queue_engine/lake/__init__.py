"""The data pipeline: Spark through PySpark, from the log to history, archive and replay."""
