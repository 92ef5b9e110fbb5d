"""Asks archive and history with SQL: duckdb in a process of its own, which reaches no file and no setting."""
