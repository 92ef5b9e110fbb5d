"""The acts: one row for each, with everything about it that is no code."""
