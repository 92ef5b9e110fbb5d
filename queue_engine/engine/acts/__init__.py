"""Acts on topics, channels and cursors, checked and fenced."""
