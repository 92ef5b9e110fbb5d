"""Java and Spark: found, started, limited."""
