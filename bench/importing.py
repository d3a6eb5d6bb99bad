"""The time of ``import backprobe`` beyond NumPy, and of a first verb; and that neither imports a framework.

Seconds are those of the processor, in a process of its own that has imported NumPy: the least of several, since other
work on the machine makes all of them larger. Bytecode is read from a folder of its own, where a first process of each
statement has written it. Where ``PYTHONDONTWRITEBYTECODE`` is set each process would compile all source.
"""

import os
import subprocess
import sys
import tempfile

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


def imported(statement: str, bytecode: str) -> tuple[float, list[str]]:
    """The seconds that a statement takes in a new process, and the frameworks that are there afterwards."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    command = [sys.executable, "-c", IMPORTING.format(statement=statement), *FRAMEWORKS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    seconds, *found = done.stdout.split()
    return float(seconds), found


def main():
    frameworks = set()
    with tempfile.TemporaryDirectory() as bytecode:
        for statement in ("import backprobe", *(f"from backprobe import {verb}" for verb in (*VERBS, "*"))):
            imported(statement, bytecode)  # bytecode is written and files are read once
            runs = [imported(statement, bytecode) for _ in range(TIMES)]
            print(f"{statement:32} {min(seconds for seconds, _ in runs):.3f} s")
            frameworks.update(name for _, names in runs for name in names)
    if frameworks:
        sys.exit(f"backprobe imports a framework uninvited: {sorted(frameworks)}")


if __name__ == "__main__":
    main()
