#!/bin/sh
# GPyTorch: the constraints of all models in a process hold one and the same Softplus module.
#
# `Positive()` and `GreaterThan()` keep their transform as a submodule, which is made once, as the default of a parameter. So
# two kernels, and a likelihood of another model, have the same module object under paths of their own. A forward hook on
# it hears the other models' parameters; `module.to()`, `requires_grad_` and deep copies do no harm, as it has no parameters.
#
# Whoever hooks all modules of a GP, as loggers and profilers do, counts the calls of every other GP in the process with its
# own. What helps: skip modules that lie in several models, or hook none that have neither parameters nor a name of yours.
#
# Seen with: gpytorch 1.15.2, torch 2.13.0 (CPU), Python 3.11
# gpytorch 1.15.2 | noise_covar.raw_noise_constraint._transform | the same object: True | other models' calls heard: 2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  gpytorch==1.15.2 torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
from importlib.metadata import version

import gpytorch

kernel = gpytorch.kernels.RBFKernel()
other = gpytorch.likelihoods.GaussianLikelihood()
paths = [path for path, _ in other.named_modules() if path.endswith("_transform")]
mine, theirs = kernel.raw_lengthscale_constraint._transform, other.get_submodule(paths[0])
heard = []
theirs.register_forward_hook(lambda *_: heard.append(1))
kernel.lengthscale, gpytorch.kernels.MaternKernel().lengthscale
print(f"gpytorch {version('gpytorch')} | {paths[0]} | the same object: {mine is theirs} | other models' calls heard: {len(heard)}")
PYTHON
said=$("$folder/env/bin/python" -W ignore "$folder/shown.py")
echo "$said"
[ "$said" = "gpytorch 1.15.2 | noise_covar.raw_noise_constraint._transform | the same object: True | other models' calls heard: 2" ]
