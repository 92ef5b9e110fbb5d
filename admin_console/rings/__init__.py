"""The last fifteen minutes, second by second, and the jumps of depth that acts made."""
