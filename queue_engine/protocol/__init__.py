"""Bytes on the wire, to commands and back."""
