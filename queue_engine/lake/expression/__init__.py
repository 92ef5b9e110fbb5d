"""One boolean expression over messages."""
