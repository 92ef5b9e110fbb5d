"""The content types of answers."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"
BINARY = "application/octet-stream"
