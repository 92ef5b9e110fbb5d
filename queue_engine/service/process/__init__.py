"""What surrounds a server in its process: its streams, and its reports to whatever runs it."""
