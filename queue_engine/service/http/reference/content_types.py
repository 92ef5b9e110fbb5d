"""The content types of answers."""

# An answer without a body has none.
NOTHING = ""
TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
BINARY = "application/octet-stream"
