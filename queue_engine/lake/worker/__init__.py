"""The worker process, which runs the jobs beside the server."""
