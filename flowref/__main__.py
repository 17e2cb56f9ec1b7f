"""``python -m flowref`` is ``flowref``."""

from flowref.cli import main

if __name__ == "__main__":
    main()
