"""Figures in motion: ring buffers of the last fifteen minutes, and one frame a second to every page that looks."""
