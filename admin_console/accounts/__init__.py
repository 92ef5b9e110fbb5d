"""Users and their sessions."""
