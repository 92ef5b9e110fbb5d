"""The socket of a page: its log-in, and one update a second."""
