"""One FIFO queue in files that nsqd reads and writes too."""
