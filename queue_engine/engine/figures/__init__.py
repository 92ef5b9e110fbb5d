"""All figures of the engine at one moment."""
