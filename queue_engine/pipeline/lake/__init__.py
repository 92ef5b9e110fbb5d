"""How a file comes to count, and who may write."""
