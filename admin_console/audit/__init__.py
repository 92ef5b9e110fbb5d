"""Who did what, when, from where, and with which outcome: rows that are added and never changed."""
