"""nsqadmin's own HTTP interface, for programs that call it."""
