"""Makes tables of what earlier versions of the pipeline wrote."""
