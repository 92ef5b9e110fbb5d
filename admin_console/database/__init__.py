"""The console's SQLite file: opened, watched, set aside when it is damaged, done without while the disk refuses it."""
