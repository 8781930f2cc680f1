"""Commits: each action turns files into updates and requirements; `retry` carries them to a catalog."""
