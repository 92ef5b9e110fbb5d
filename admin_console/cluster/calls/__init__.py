"""Which addresses may be called, and the calls."""
