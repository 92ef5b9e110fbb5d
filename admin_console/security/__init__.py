"""Headers that every answer carries, and checks that every request passes: proxies, origins, pacing."""
