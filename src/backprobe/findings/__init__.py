"""What the answers of ``explain``, ``health`` and ``check`` are made of."""
