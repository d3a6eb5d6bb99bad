"""XLA compiles less: half of the time would be its compiler's, for programs that run once."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
