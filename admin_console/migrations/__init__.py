"""The console's tables, step by step."""
