"""What every floor speaks of: messages, names, errors, clocks, tickets, budgets, options."""
