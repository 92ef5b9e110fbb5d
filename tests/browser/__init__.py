"""The console in a real Chromium: a real server, real clients, and a browser that may complain about nothing."""
