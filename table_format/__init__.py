"""The shared Iceberg kernel: metadata documents, object stores, manifests, scans, writes and commits.

No web, no database, no broker, no event loop. Nothing is exported here: import the owning
module.
"""
