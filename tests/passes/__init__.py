"""Programs that take gradients themselves, as people write them, and what a recording of each has to say."""
