"""`python -m catalog_server` is `frazil`: how the server starts its own child processes."""

from catalog_server.cli import main

if __name__ == "__main__":
    main()
