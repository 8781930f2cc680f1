"""Manifest rewrite: many small or mixed-up manifests become few, clustered by partition; no file comes or goes."""
