"""Topics of the log as tables and streams of Spark, and rows as messages."""
