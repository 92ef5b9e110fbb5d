"""The seam to the file system, and small files that are replaced as a whole."""
