"""Where pieces of a job's work are executed: in the worker, in processes beside it, or on a Ray cluster."""
