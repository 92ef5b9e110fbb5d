"""The audit list: rows with actor, act, time, address and outcome, which are added and never changed."""
