"""The engine: its start, its turns and its stop, its acts and figures."""
