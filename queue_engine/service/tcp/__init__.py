"""The NSQ protocol on TCP connections."""
