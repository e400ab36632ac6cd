"""`python -m aicore_sim` is the command line."""

from __future__ import annotations

import sys

from aicore_sim.cli import main

if __name__ == "__main__":
    sys.exit(main())
