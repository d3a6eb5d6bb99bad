"""Where a line is, which tests of ``bp.check`` share."""


def line(text, path):
    """The line of a file that ends in a comment."""
    with open(path) as file:
        (found,) = [at for at, one in enumerate(file, 1) if one.rstrip().endswith(f"# {text}")]
    return found
