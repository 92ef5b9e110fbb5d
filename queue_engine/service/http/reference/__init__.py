"""What each path of the HTTP API takes and answers, and the OpenAPI document made of it."""
