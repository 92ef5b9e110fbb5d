"""What every answer carries and every request must satisfy: headers, proxies, origins, pacing."""
