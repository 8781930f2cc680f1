"""Use-cases: what may be done to buckets, namespaces, tables, policies and jobs, whatever the door."""
