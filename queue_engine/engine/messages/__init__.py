"""The single messages of a channel: the state of each, and lists of them."""
