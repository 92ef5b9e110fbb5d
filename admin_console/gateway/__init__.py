"""The console's whole need of an engine: what it asks, what it may do, and the engine in this process."""
