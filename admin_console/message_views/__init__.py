"""The pages of a channel's messages: lists, one message, files, acts on single messages, the search."""
