"""One folder for each framework: the only places that import it."""
