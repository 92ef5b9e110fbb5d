"""Who did what, when, from where, and what came of it: rows that are added and never changed."""
