"""JSON for the console's own pages."""
