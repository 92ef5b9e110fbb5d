"""Reads a topic of the log without consuming."""
