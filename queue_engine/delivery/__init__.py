"""What happens to a message between publish and FIN; synchronous, no files, no sockets."""
