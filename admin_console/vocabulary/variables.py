"""The names of the environment variables that no option has."""

# The first admin's name and password, for a start that no person watches.
ADMIN_USER = "PENSTOCK_ADMIN_USER"
ADMIN_PASSWORD = "PENSTOCK_ADMIN_PASSWORD"  # noqa: S105 - the variable's name
# A word in every page's header, such as "production", so that the reader sees where an act goes.
ENVIRONMENT = "PENSTOCK_ENVIRONMENT"
# The two switches of `serve`: true or false.
DEMO = "PENSTOCK_DEMO"
NO_PIPELINE = "PENSTOCK_NO_PIPELINE"
