"""NSQ's protocol: parses commands and makes frames."""
