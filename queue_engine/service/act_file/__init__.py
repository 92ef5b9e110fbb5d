"""The acts over the HTTP API while no console wrote the audit list."""
