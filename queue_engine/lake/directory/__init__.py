"""The directory that the pipeline's jobs write to: manifests, the lock."""
