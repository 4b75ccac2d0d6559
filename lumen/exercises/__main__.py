"""``lumen`` on the command line: the engine of ``lumen.grading`` with the book's sets."""

import sys

from lumen.exercises import SETS
from lumen.grading import command


def main() -> int:
    return command.main(SETS)


if __name__ == "__main__":
    sys.exit(main())
