"""Every option of the engine: its flag, its limits, and why the default is what it is."""
