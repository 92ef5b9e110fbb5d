"""Readers of a topic of the log that do not consume: leases and pipeline cursors."""
