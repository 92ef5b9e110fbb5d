"""The process around a server: its streams, and its reports to the service manager."""
