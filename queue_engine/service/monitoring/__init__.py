"""What a monitoring system reads of a server: metrics for Prometheus, a dashboard, alert rules."""
