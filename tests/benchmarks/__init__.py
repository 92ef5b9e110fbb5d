"""Measurements: load programs, a peer in the same run, the recorded results."""
