"""The version that `/info`, IDENTIFY and topology.json state; pyproject.toml reads it here."""

VERSION = "0.1.0"
