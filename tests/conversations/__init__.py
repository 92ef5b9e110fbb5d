"""Conversations with the server over a real socket, byte by byte, as an NSQ client has them."""
