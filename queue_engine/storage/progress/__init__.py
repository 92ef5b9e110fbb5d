"""The progress of each channel of the log, in a journal and its index."""
