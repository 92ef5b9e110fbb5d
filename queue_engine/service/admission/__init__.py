"""What is let in: connections, bodies in progress, acts, new topics."""
