"""nsqd's HTTP API, and Penstock's additions to it."""
