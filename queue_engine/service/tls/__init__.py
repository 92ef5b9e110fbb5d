"""Certificates and TLS, from the options."""
