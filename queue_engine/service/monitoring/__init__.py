"""For monitoring systems: metrics for Prometheus, a dashboard, alert rules."""
