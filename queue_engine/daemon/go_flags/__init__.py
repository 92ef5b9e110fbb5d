"""Command lines and configuration files as NSQ's own daemons take them."""
