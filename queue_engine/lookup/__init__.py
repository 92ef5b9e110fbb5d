"""nsqlookupd: which nsqd has which topics."""
