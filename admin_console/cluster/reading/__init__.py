"""Each node's answers, read again and again."""
