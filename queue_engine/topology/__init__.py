"""What exists: topics and channels, the files that say so, and how they change."""
