"""The key index: at which offsets of a topic a key is."""
