"""Archived messages, published again."""
