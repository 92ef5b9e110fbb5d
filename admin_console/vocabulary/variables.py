"""The environment variables that no option has."""

ADMIN_USER = "PENSTOCK_ADMIN_USER"
ADMIN_PASSWORD = "PENSTOCK_ADMIN_PASSWORD"  # noqa: S105 - the variable's name
ENVIRONMENT = "PENSTOCK_ENVIRONMENT"
AUTH_SECRET = "PENSTOCK_AUTH_SECRET"  # noqa: S105 - the variable's name

HELP = {
    ADMIN_USER: "name of the first admin, for a start that no person watches",
    ADMIN_PASSWORD: "password of the first admin",
    ENVIRONMENT: "a word for the badge in the header of each page, such as production; 24 characters are shown",
    AUTH_SECRET: "secret for AUTH, and token for HTTP, of the commands that are clients: stat, tail, to_file …",
}
