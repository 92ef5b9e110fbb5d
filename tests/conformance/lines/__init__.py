"""Every line of what nsqd's own tests and sources promise, with the tests of ours that hold it.

A line's name begins with its part: DQ disk queue, CH channel, TP topic, ND daemon, P2 protocol V2, P2x its texts, HT
HTTP, ST stats, PQ priority queue, LK nsqlookupd, SBS what a run of both servers side by side showed. A test is
PATH::NAME below tests/. DEPARTURE NAME is a row of the table "Departures" in queue_engine/wire/protocol/README.md.
"""
