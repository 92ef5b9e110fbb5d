"""Jobs: what they get, how they run, what they report."""
