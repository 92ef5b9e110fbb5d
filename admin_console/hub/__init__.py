"""The newest snapshot with its rings and diagnoses, for every page; and what was done since."""
