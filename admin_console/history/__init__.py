"""The graphs' past: ranges of time, the pipeline's Parquet files read through duckdb, joined to the live seconds."""
