"""The management API below `/api/v1`."""
