"""``python -m flowref`` is ``flowref``."""

import os
import sys
from pathlib import Path

if sys.path[:1] == [os.getcwd()] and Path.cwd() != Path(__file__).parents[1]:
    # A file of the user's folder may bear the name of a module that this one imports, such as
    # statistics.py; the command without ``python -m`` does not have that folder first either.
    sys.path.append(sys.path.pop(0))

from flowref.cli import main

if __name__ == "__main__":
    main(prog_name="flowref")
