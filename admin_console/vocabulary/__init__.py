"""What every package of the console uses: roles, units of what pages show, private files."""
