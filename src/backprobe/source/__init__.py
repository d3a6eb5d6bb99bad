"""The source of running code: finding its text, rewriting it to report names and calls, following its calls."""
