"""The version that `/info`, IDENTIFY and topology.json state; pyproject.toml has the same."""

VERSION = "0.1.0"
