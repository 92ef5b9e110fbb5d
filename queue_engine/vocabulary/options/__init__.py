"""Every option of the engine: its flag, its limits, and the reason for its default."""
