"""SQL over archive and history: duckdb in a process of its own, which reaches no file and no setting."""
