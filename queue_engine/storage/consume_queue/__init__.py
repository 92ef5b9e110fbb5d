"""The consume queue: where each offset's record lies in the commit log."""
