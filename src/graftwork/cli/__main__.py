"""`python -m graftwork.cli` is `graftwork`."""

from graftwork.cli import main

if __name__ == "__main__":
    main()
