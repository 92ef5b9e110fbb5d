#!/usr/bin/env python3
"""The command `penstock` of a checkout: `python manage.py serve` starts everything, `help` lists the rest."""

from admin_console.management.entry import main

if __name__ == "__main__":
    main()
