"""Delta Lake tables on a disk or an object store."""
