"""Real client libraries against the real server, with a real file."""
