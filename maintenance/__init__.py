"""Table maintenance: policies, plans, jobs, and the worker that runs them. Knows no web and no database."""
