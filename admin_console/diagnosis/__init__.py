"""The problems of a channel, from its figures: pure functions of snapshots, one file for each kind of finding."""
