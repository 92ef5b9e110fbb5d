"""What delivery asks of storage, and what both kinds of storage share."""
