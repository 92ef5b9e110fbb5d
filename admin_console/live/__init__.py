"""The socket of a page: who may hold it, and one frame a second."""
