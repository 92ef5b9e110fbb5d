"""The version that `/info`, IDENTIFY and topology.json tell; pyproject.toml states the same."""

VERSION = "0.1.0"
