"""TorchRL: losses of agents, modules that hold functional copies of networks and read dictionaries of tensors."""

import torch
from in_torch import ask_paths
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.modules import ActorValueOperator, ProbabilisticActor, QValueActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss, DQNLoss, SoftUpdate
from torchrl.objectives.value import GAE

FRAMEWORK, LIBRARIES = "PyTorch", ("torchrl", "tensordict")


# https://docs.pytorch.org/rl/stable/tutorials/coding_dqn.html
def batch():
    return TensorDict(
        {
            "observation": torch.randn(6, 3),
            "action": nn.functional.one_hot(torch.randint(0, 2, (6,)), 2),
            "next": {
                "observation": torch.randn(6, 3),
                "reward": torch.randn(6, 1),
                "done": torch.zeros(6, 1, dtype=torch.bool),
                "terminated": torch.zeros(6, 1, dtype=torch.bool),
            },
        },
        batch_size=[6],
    )


def dqn(around, steps=20):
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    actor = QValueActor(network, in_keys=["observation"], action_space="one-hot")
    loss_module = DQNLoss(actor, action_space="one-hot", delay_value=True)
    loss_module.make_value_estimator(gamma=0.9)
    updater = SoftUpdate(loss_module, eps=0.9)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=0.01)
    data = batch()
    with around(loss_module, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_module(data)["loss"]
            loss.backward()
            optimizer.step()
            updater.step()
    return seen, loss, {name: p.grad for name, p in loss_module.named_parameters() if p.grad is not None}


def test_dqn(ask):
    rec = ask.block(dqn, 1)
    _, grads = ask.bare(dqn, 1)
    ask.that(len(grads) == 4, f"trained: {list(grads)}")
    ask.gradients(rec, grads)
    ask.clean(rec)
    last = ask.watched(dqn)
    ask.rows(last, *grads)
    ask.works("`DQNLoss` with a target network: every parameter, and `bp.watch` over the training")


# the loss by hand: smooth L1 between the chosen value and the target
def chosen_value(around):
    network = nn.Linear(3, 2)
    observation, target = torch.randn(6, 3), torch.randn(6)
    action = nn.functional.one_hot(torch.randint(0, 2, (6,)), 2)
    actor = QValueActor(network, in_keys=["observation"], action_space="one-hot")
    with around() as seen:
        data = actor(TensorDict({"observation": observation}, batch_size=[6]))
        values = data["action_value"]
        chosen = (values * action).sum(-1)
        loss = (chosen - target).square().mean()
        loss.backward()
    return seen, loss, network.weight.grad, chosen - target, action


def test_values_by_hand(ask):
    rec = ask.block(chosen_value)
    _, _, residual, action = ask.bare(chosen_value)
    d_chosen = residual / 3
    ask.gradients(rec, {"chosen": d_chosen, "values": d_chosen[:, None] * action, "loss": 1.0})
    ask.names(rec, "values", "chosen", "data.action_value", "observation")
    ask.clean(rec)


# https://docs.pytorch.org/rl/stable/tutorials/coding_ppo.html
def ppo(around, steps=20):
    class Normal(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(3, 2)

        def forward(self, observation):
            location, scale = self.net(observation).chunk(2, -1)
            return location, nn.functional.softplus(scale) + 0.1

    actor = ProbabilisticActor(
        TensorDictModule(Normal(), in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(nn.Linear(3, 1), in_keys=["observation"])
    loss_module = ClipPPOLoss(actor, critic, entropy_bonus=False)
    data = batch()
    data["action"] = torch.zeros(6, 1)
    with torch.no_grad():
        data.update(actor(data.clone()))
        GAE(gamma=0.9, lmbda=0.9, value_network=critic)(data)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=0.01)
    with around(loss_module, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            losses = loss_module(data)
            loss = losses["loss_objective"] + losses["loss_critic"]
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in loss_module.named_parameters() if p.grad is not None}


def test_ppo(ask):
    rec = ask.block(ppo, 1)
    _, grads = ask.bare(ppo, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "return.loss_objective", "return.loss_critic")
    ask.clean(rec)
    last = ask.watched(ppo)
    ask.rows(last, *grads)
    ask.works("`ClipPPOLoss`: actor and critic, and `bp.watch` over the training")


# networks that losses, policies and critics share
def shared():
    """https://docs.pytorch.org/rl/stable/reference/generated/torchrl.modules.ActorValueOperator.html"""
    common = TensorDictModule(nn.Linear(3, 4), in_keys=["observation"], out_keys=["hidden"])
    head = TensorDictModule(nn.Linear(4, 2), in_keys=["hidden"], out_keys=["action"])
    return ActorValueOperator(common, head, ValueOperator(nn.Linear(4, 1), in_keys=["hidden"]))


def operators():
    both = shared()
    model = nn.ModuleDict({"policy": both.get_policy_operator(), "value": both.get_value_operator()})

    def step():
        data = batch()
        (model["policy"](data)["action"].sum() + model["value"](data)["state_value"].sum()).backward()

    names = "policy.module.0.module", "policy.module.0.module.weight", "policy.module.1.module", "value.module.1.module"
    return model, step, names


def loss_of_a_network():
    network = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    loss = DQNLoss(QValueActor(network, in_keys=["observation"], action_space="one-hot"), action_space="one-hot")
    loss.make_value_estimator(gamma=0.9)
    names = "value_network_params.module.0.module.0.weight", "value_network_params.module.0.module.2.bias"
    return loss, lambda: loss(batch())["loss"].backward(), names


def losses_of_shared_networks():
    both = shared()
    policy, value = both.get_policy_operator(), both.get_value_operator()
    actor = ProbabilisticActor(
        TensorDictSequential(policy[0], TensorDictModule(Halves(nn.Linear(4, 2)), ["hidden"], ["loc", "scale"])),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    loss = ClipPPOLoss(actor, value, entropy_bonus=False)
    data = batch()
    data["action"] = torch.zeros(6, 1)
    with torch.no_grad():
        data.update(actor(data.clone()))
        GAE(gamma=0.9, lmbda=0.9, value_network=value)(data)

    def step():
        found = loss(data)
        (found["loss_objective"] + found["loss_critic"]).backward()

    actor_head = "actor_network_params.module.0.module.1.module.net.weight"
    names = (
        "actor_network_params.module.0.module.0.module.weight",
        actor_head,
        "critic_network_params.module.1.module.bias",
    )
    return loss, step, names


class Halves(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, hidden):
        location, scale = self.net(hidden).chunk(2, -1)
        return location, nn.functional.softplus(scale) + 0.1


def test_several_paths(ask):
    for made in (operators, loss_of_a_network, losses_of_shared_networks):
        ask_paths(ask, *made())
    ask.works("networks that a policy, a critic and a loss share: the path to be guessed is printed")


# planted
def cut(around):
    network, head = nn.Linear(3, 4), nn.Linear(4, 2)
    actor = QValueActor(head, in_keys=["hidden"], action_space="one-hot")
    observation = torch.randn(6, 3)
    with around() as seen:
        hidden = network(observation)
        with torch.no_grad():
            kept = hidden * 1.0  # <- cut
        values = actor(TensorDict({"hidden": kept}, batch_size=[6]))["action_value"]
        loss = values.square().mean()
        loss.backward()
    return seen, loss


def nan(around):
    head = nn.Linear(3, 2)
    actor = QValueActor(head, in_keys=["observation"], action_space="one-hot")
    with around() as seen:
        values = actor(TensorDict({"observation": torch.randn(6, 3)}, batch_size=[6]))["action_value"]
        advantage = values - values
        normal = advantage / advantage.std()  # <- nan
        loss = normal.mean()
        loss.backward()
    return seen, []


def test_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    ask.statuses(rec, {"hidden": "not_connected", "kept": "no_grad"})
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)
