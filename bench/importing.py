"""The time of ``import backprobe``, beside an interpreter that imports nothing; and that it imports no framework."""

import statistics
import subprocess
import sys

PAIRS = 15
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax", "flax", "equinox", "transformers")
IMPORTING = """
import sys, time
started = time.perf_counter()
import {module}
print(time.perf_counter() - started, *(name for name in sys.argv[1:] if name in sys.modules))
"""


def imported(module: str) -> tuple[float, list[str]]:
    """The seconds that an import takes in a new process, and the frameworks that are there afterwards."""
    command = [sys.executable, "-c", IMPORTING.format(module=module), *FRAMEWORKS]
    seconds, *found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(seconds), found


def main():
    for module in ("backprobe", "numpy"):
        imported(module)  # bytecode is written and files are read once
    pairs = [(imported("backprobe"), imported("numpy")) for _ in range(PAIRS)]
    ours = statistics.median(seconds for (seconds, _), _ in pairs)
    ratio = statistics.median(ours / numpy for (ours, _), (numpy, _) in pairs)
    found = sorted({name for (_, names), _ in pairs for name in names})
    print(f"import backprobe: {ours:.3f} s, × {ratio:.2f} of import numpy; frameworks imported: {found or 'none'}")
    if found:
        sys.exit("backprobe imports a framework uninvited")


if __name__ == "__main__":
    main()
