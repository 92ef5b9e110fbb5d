"""The process's threads, tasks and memory, as texts."""
