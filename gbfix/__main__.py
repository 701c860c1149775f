"""``python -m gbfix``."""

import sys

from gbfix.cli import main

if __name__ == "__main__":
    sys.exit(main())
