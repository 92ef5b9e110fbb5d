"""The archive of messages."""
