"""Lists and acts of nsqlookupds."""
