"""What NSQ's own tools do, over our client: stat, tail, to_file, to_http, forward, publish."""
