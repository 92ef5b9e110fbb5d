"""NSQ's own tools over our client: stat, tail, to_file, to_http, forward, publish."""
