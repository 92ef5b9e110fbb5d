"""Jobs: their resources, their threads, their reports."""
