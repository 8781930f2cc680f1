"""Unreferenced files: found, marked, and deleted only after they stayed unreferenced for long enough."""
