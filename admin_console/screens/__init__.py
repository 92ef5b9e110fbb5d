"""What each page shows, made from the newest figures: rendered as HTML first, then sent as live updates."""
