"""The engine: its start, its turns and its stop, and what it can do."""
