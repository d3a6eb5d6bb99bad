"""Programs as users write them, whose types mypy and pyright check: none of them is run. See ``make types``.

A line that is wrong on purpose ends in ``type: ignore``: both checkers report a comment that nothing needs.
"""
