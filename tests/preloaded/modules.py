"""A command that prints the names of the modules it has, one a line."""

import sys

if __name__ == "__main__":
    print(*sys.modules, sep="\n")
