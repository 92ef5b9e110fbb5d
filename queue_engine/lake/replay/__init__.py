"""Publishes archived messages again, each once."""
