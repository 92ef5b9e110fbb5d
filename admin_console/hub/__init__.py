"""The newest snapshot with its rings and diagnoses, for every page."""
