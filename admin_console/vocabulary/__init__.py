"""Shared by all packages of the console: roles, units of figures on pages, private files."""
