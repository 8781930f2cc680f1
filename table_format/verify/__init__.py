"""Whether every file that a table needs is there, and whether what is written about them adds up."""
