"""Reads a topic of the log by offset, without consuming."""
