"""Table metadata as JSON documents: read views, requirements, updates, creation, file naming."""
