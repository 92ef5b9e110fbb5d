"""A job: what it is given, how it runs, what it says of itself."""
