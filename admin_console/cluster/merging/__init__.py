"""The answers of all nodes as one snapshot."""
