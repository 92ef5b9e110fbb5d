"""Limits that apply before work is done: connections, bodies being read, acts, new topics."""
