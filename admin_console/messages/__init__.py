"""Messages as pages show them: bodies in every form, the states of a channel's messages, the page's filters."""
