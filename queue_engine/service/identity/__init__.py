"""The identity of a client, and its permissions."""
