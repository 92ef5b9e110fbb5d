"""The commit log: records in segments, written, synced, read back after a start."""
