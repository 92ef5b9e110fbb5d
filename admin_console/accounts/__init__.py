"""Users, their roles, logging in and staying logged in."""
