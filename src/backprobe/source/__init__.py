"""Works with the source of running code: finds the text, rewrites it to report names and calls, and follows calls."""
