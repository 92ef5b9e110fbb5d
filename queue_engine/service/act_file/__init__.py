"""The acts that came over the HTTP API while no console kept the audit list."""
