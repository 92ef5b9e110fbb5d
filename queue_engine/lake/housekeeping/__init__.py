"""Housekeeping of the archive's tables."""
