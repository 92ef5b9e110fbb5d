"""The terms of every door: messages, names, errors, clocks, tickets, budgets, options."""
