"""A small asyncio client for NSQ servers, and the demo's traffic."""
