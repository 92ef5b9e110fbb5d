"""What the engine does when it is asked to: acts on topics and channels, checked and fenced."""
