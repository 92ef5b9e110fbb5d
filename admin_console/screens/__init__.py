"""The screens of the pages, made from the newest figures: rendered as HTML first, then sent as live updates."""
