"""The engine's event loop: its background work, and its supervision."""
