"""Requests' bodies and answers that cross a process border: the HTTP API and its clients share them."""
