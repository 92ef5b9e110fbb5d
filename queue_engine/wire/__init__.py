"""What crosses a process border: written by the HTTP API, read by its clients."""
