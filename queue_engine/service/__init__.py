"""Floor 4: asyncio, sockets and the engine's thread."""
