"""The server's own figures, every ten seconds, in a log of their own."""
