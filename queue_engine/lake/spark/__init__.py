"""Finds Java, starts Spark, limits both."""
