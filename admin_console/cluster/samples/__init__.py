"""Samples of the nodes, for the history."""
