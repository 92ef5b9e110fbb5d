"""Floor 2: what happens to a message between publish and FIN; synchronous, no files, no sockets."""
