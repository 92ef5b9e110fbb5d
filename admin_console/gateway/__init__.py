"""The console's only access to an engine: reads, acts, and the engine in this process."""
