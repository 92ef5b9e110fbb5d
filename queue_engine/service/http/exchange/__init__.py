"""HTTP itself: connections, requests and answers, whatever the path."""
