"""The queue engine as a program of its own, started as nsqd is."""
