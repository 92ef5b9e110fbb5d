"""Asyncio, sockets and the engine's thread."""
