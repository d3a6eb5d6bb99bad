"""Benches whose tables are of several frameworks: each in a process of its own, since a program imports one of them."""

import subprocess
import sys


def main(file, tables):
    """Print the table that the command line names, or all of them; each is a function, by its name."""
    names = sys.argv[1:]
    unknown = [name for name in names if name not in tables]
    if unknown:
        sys.exit(f"there is no table {unknown[0]!r}: the tables are {', '.join(tables)}")
    if len(names) == 1:
        tables[names[0]]()
        return
    for name in names or tables:
        subprocess.run([sys.executable, file, name], check=True)
