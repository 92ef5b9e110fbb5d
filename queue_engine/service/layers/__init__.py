"""Layers between a connection's socket and its session: TLS, and a compression."""
