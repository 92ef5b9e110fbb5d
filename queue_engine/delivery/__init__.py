"""Topics and channels: a message's way from publish to FIN; synchronous, no files, no sockets."""
