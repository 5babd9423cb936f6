"""``python -m strongticket`` is the command ``strongticket``."""

from strongticket.cli import main

if __name__ == "__main__":
    main()
