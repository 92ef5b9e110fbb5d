"""Copies the topics of nsqd's data directory into topics of the log."""
