"""Answers to requests that can't be served: refusals, no engine, a fault."""
