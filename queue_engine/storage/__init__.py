"""Floor 1: bytes on disk."""
