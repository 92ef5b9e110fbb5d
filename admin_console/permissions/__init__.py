"""Who may open which page, do which act, hold which socket: one table, enforced in one place."""
