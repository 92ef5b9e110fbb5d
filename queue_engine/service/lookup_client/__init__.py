"""This server's registrations at nsqlookupds."""
