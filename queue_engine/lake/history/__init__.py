"""The history of the graphs: minutes, hours and their files."""
