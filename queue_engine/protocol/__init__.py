"""Floor 1: bytes on the wire, to commands and back."""
