"""Parameters and answers of each path of the HTTP API, and the OpenAPI document made of them."""
