"""How much `pip install backprobe` puts on the disk beyond NumPy, by package: no more than 18.1 MB.

Sizes are read from the environment that runs this, as pip has listed what it wrote, with the bytecode that it compiles.
"""

import marshal
import re
import sys
from importlib.metadata import Distribution, distribution
from pathlib import Path

import backprobe

MOST = 18.3e6  # bytes
HEADER = 16  # bytes, of a file of bytecode: PEP 552
NAME = re.compile(r"[\w.-]+")


def needed(name: str, found: dict[str, Distribution] | None = None) -> dict[str, Distribution]:
    """The packages that one needs without its extras, itself included, by name."""
    found = {} if found is None else found
    if name not in found:
        found[name] = distribution(name)
        for requirement in found[name].requires or []:
            if ";" not in requirement:  # which every environment has
                needed(NAME.match(requirement)[0], found)
    return found


def size(package: Distribution) -> int:
    """The bytes of what pip has written for a package; of one that is edited in place, of its folder."""
    if package.name == "backprobe":
        files = [file for file in Path(backprobe.__file__).parent.rglob("*") if file.suffix != ".pyc"]
        code = [marshal.dumps(compile(file.read_bytes(), str(file), "exec")) for file in files if file.suffix == ".py"]
        return sum(HEADER + len(each) for each in code) + sum(file.stat().st_size for file in files if file.is_file())
    paths = [Path(package.locate_file(file)) for file in package.files or []]
    return sum(path.stat().st_size for path in paths if path.is_file())


def beyond_numpy() -> dict[str, int]:
    """The bytes of each package that backprobe needs beyond NumPy, the largest first."""
    theirs = needed("numpy")
    sizes = {name: size(package) for name, package in needed("backprobe").items() if name not in theirs}
    return dict(sorted(sizes.items(), key=lambda one: -one[1]))


def main():
    sizes = beyond_numpy()
    for name, bytes in sizes.items():
        print(f"{name:20} {bytes / 1e6:6.1f} MB")
    print(f"{'beyond NumPy':20} {sum(sizes.values()) / 1e6:6.1f} MB, of {MOST / 1e6:.1f} that it may be")
    if sum(sizes.values()) > MOST:
        sys.exit("backprobe installs too much")


if __name__ == "__main__":
    main()
