"""The server around the pages; Django looks for commands here."""
