"""Storage kind `log`: topics and channels over the commit log."""
