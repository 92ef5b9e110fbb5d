"""Requests queue for the interpreter, so that messages get at least half of it."""
