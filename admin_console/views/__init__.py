"""Pages that read, and acts that write: a module a concern."""
