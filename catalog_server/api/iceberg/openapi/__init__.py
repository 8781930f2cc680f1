"""The OpenAPI document of the Iceberg API: what each operation takes and answers, in our own words."""
