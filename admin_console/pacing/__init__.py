"""Requests take turns at the interpreter, so that messages have at least half of it."""
