"""The engine's HTTP API for topics of the log, as a client uses it."""
