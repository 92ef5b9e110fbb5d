"""What each page shows, made from the newest figures: rendered as HTML first, sent as live updates then."""
