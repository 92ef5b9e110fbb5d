"""Storage kind `diskqueue`: memory first, then a queue in files."""
