"""The time of ``import backprobe`` beyond NumPy, and of a first verb; and that neither imports a framework.

Seconds are those of the processor, in a process of its own that has imported NumPy.
"""

import statistics
import subprocess
import sys

TIMES = 9
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "flax", "equinox", "transformers")
VERBS = ("probe", "explain", "watch", "diff")
IMPORTING = """
import sys, time
import numpy
started = time.process_time()
{statement}
print(time.process_time() - started, *(name for name in sys.argv[1:] if name in sys.modules))
"""


def imported(statement: str) -> tuple[float, list[str]]:
    """The seconds that a statement takes in a new process, and the frameworks that are there afterwards."""
    command = [sys.executable, "-c", IMPORTING.format(statement=statement), *FRAMEWORKS]
    seconds, *found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), found


def main():
    frameworks = set()
    for statement in ("import backprobe", *(f"from backprobe import {verb}" for verb in (*VERBS, "*"))):
        imported(statement)  # bytecode is written and files are read once
        runs = [imported(statement) for _ in range(TIMES)]
        print(f"{statement:32} {statistics.median(seconds for seconds, _ in runs):.3f} s")
        frameworks.update(name for _, names in runs for name in names)
    if frameworks:
        sys.exit(f"backprobe imports a framework uninvited: {sorted(frameworks)}")


if __name__ == "__main__":
    main()
