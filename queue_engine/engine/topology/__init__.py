"""Which topics and channels exist, the files that store it, and how they change."""
