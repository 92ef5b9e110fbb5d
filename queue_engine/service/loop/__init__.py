"""The engine's event loop: its background work, and what keeps it alive."""
