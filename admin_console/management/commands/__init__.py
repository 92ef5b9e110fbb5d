"""`manage.py serve` starts everything; `manage.py user` keeps the users."""
