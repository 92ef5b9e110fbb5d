"""`penstock serve` starts everything; `penstock user` manages the users."""
