"""What several tests stand on: a clock to move by hand, a real server, a raw client."""
