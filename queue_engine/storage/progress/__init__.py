"""What each channel of the log has done, in a journal and its index."""
