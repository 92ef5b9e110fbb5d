"""Sends the stats to a statsd daemon."""
