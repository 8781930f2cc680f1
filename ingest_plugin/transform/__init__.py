"""Decoded values on their way to columns: unwrapped, chosen, renamed and cast, with keys and headers beside them."""
