"""Works with the source of running code: finds its text, rewrites it to report names and calls, follows its calls."""
