"""Who reads a topic of the log without consuming: holds and cursors."""
