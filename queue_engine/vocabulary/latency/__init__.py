"""How long something took: times counted in buckets, and their percentiles."""
