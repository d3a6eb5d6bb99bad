"""One folder a framework: the only places that import one."""
