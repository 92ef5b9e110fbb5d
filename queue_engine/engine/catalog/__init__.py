"""Which topics and channels there are: by name, in the trash, with their stores."""
