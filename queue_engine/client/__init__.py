"""Floor 4: a small asyncio client for NSQ servers, and the demo's traffic made with it."""
