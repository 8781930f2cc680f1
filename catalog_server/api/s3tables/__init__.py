"""The S3 Tables API of AWS over the services of this server."""
