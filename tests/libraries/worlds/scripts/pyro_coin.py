# from: https://pyro.ai/examples/svi_part_i.html
# never: got no gradient|not_executed
import pyro
import pyro.distributions as dist
import torch
import torch.distributions.constraints as constraints
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam

pyro.set_rng_seed(0)
pyro.clear_param_store()
data = [torch.tensor(1.0) for _ in range(6)] + [torch.tensor(0.0) for _ in range(4)]


def model(data):
    alpha0, beta0 = torch.tensor(10.0), torch.tensor(10.0)
    f = pyro.sample("latent_fairness", dist.Beta(alpha0, beta0))
    for i in range(len(data)):
        pyro.sample(f"obs_{i}", dist.Bernoulli(f), obs=data[i])


def guide(data):
    alpha_q = pyro.param("alpha_q", torch.tensor(15.0), constraint=constraints.positive)
    beta_q = pyro.param("beta_q", torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("latent_fairness", dist.Beta(alpha_q, beta_q))


svi = SVI(model, guide, Adam({"lr": 0.0005, "betas": (0.90, 0.999)}), loss=Trace_ELBO())
for step in range(5):
    loss = svi.step(data)
print(loss.hex(), pyro.param("alpha_q").item().hex())
