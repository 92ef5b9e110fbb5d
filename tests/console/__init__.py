"""The console: settings, accounts, permissions, acts, audit, serve."""
