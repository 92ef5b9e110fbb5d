"""How large a form may be."""

# Nodes in one question: each that is ticked is a field. Four times the largest cluster that the tests simulate.
NODES_MAX = 2_000
# With the other fields of a question, or the 200 selected messages of a page. A few milliseconds to read.
FIELDS_MAX = NODES_MAX + 300
# The largest form is a message of 1 MiB to publish, three times its size at worst.
BYTES_MAX = 8 << 20
