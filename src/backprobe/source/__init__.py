"""From source text to variable names: finding a function's text, rewriting it to report, following its calls."""
