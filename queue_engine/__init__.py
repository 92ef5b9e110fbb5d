"""The queue engine: topics, channels, the NSQ protocol, and the disk beneath them. No Django."""
