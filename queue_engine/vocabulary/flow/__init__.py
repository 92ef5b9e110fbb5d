"""How messages are held up or come back: pauses, redrives, and why a delivery ended."""
