"""``python -m kvstate`` is the command line."""

from kvstate.cli import main

if __name__ == "__main__":
    main()
