"""`manage.py serve` starts everything; `manage.py user` manages the users."""
