"""Writes lost tables and files of an archive again."""
