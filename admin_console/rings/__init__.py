"""The last fifteen minutes, second by second, and what acts moved at once."""
