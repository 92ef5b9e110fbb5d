"""The socket of a page: who may hold it, and one update a second."""
