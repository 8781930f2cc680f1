"""Table statistics: numbers of distinct values as Theta sketches in a Puffin file, and partition statistics."""
