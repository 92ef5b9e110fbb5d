"""What the process is doing, and what its memory is for."""
