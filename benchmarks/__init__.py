"""Measuring scripts: ratios beside a peer in one run; nothing here asserts a timing."""
