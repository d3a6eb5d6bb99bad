"""Losses of preferences and rewards, as TRL writes them: a policy beside a frozen one, clipped ratios, masked means."""

import copy
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


class Policy(nn.Module):
    def __init__(self, vocabulary=7, width=8):
        super().__init__()
        self.tokens, self.mix = nn.Embedding(vocabulary, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        states, _ = self.mix(self.tokens(ids))
        return self.head(states)


def logps(logits, ids, mask):
    """The log probability of each sequence, as DPO's trainer takes it."""
    labels = ids[:, 1:]
    per_token = logits[:, :-1].log_softmax(-1).gather(2, labels[..., None])[..., 0]
    return (per_token * mask[:, 1:]).sum(-1)


CHOSEN, REJECTED = torch.tensor([[1, 2, 3, 4], [1, 5, 6, 0]]), torch.tensor([[1, 3, 2, 2], [1, 6, 5, 0]])
MASK = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]]).float()
PARAMETERS = ("tokens.weight", "mix.weight_ih_l0", "mix.weight_hh_l0", "mix.bias_ih_l0", "head.weight", "head.bias")


# https://github.com/huggingface/trl/blob/main/trl/trainer/dpo_trainer.py
def dpo(around, steps=20, select=None, beta=0.1):
    policy = Policy()
    reference = copy.deepcopy(policy).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    with around(policy, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            ids, mask = torch.cat([CHOSEN, REJECTED]), torch.cat([MASK, MASK])
            policy_logps = logps(policy(ids), ids, mask)
            with torch.no_grad():
                reference_logps = logps(reference(ids), ids, mask)
            rewards = beta * (policy_logps - reference_logps)
            chosen, rejected = rewards.chunk(2)
            margin = chosen - rejected
            loss = -F.logsigmoid(margin).mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in policy.named_parameters()}


def dpo_locals(around):
    """The same step in a block, whose own variables are recorded."""
    policy = Policy()
    reference = copy.deepcopy(policy).requires_grad_(False)
    ids, mask = torch.cat([CHOSEN, REJECTED]), torch.cat([MASK, MASK])
    with around() as seen:
        policy_logps = logps(policy(ids), ids, mask)
        with torch.no_grad():
            reference_logps = logps(reference(ids), ids, mask)
        rewards = 0.1 * (policy_logps - reference_logps)
        chosen, rejected = rewards.chunk(2)
        margin = chosen - rejected
        loss = -F.logsigmoid(margin).mean()
        loss.backward()
    return seen, loss, margin


def test_direct_preferences(ask):
    rec = ask.block(dpo, 1)
    _, grads = ask.bare(dpo, 1)
    ask.gradients(rec, grads)
    ask.names(rec, "tokens", "mix:return.0", "head", *PARAMETERS)
    ask.clean(rec)
    ask.rows(ask.watched(dpo), *PARAMETERS)
    ask.works("DPO: a policy beside a frozen copy, and `bp.watch`")


def test_direct_preferences_by_hand(ask):
    rec = ask.block(dpo_locals)
    _, margin = ask.bare(dpo_locals)
    d = -torch.sigmoid(-margin) / 2
    ask.gradients(rec, {"margin": d, "chosen": d, "rejected": -d, "rewards": torch.cat([d, -d]), "loss": 1.0})
    ask.gradients(rec, {"policy_logps": 0.1 * torch.cat([d, -d])})
    ask.statuses(rec, {"reference_logps": ("frozen", "torch.no_grad")})
    ask.clean(rec)


# https://github.com/huggingface/trl/blob/main/trl/experimental/ppo/ppo_trainer.py
def clipped(logits, old, advantages, values, returns):
    new = logits.log_softmax(-1)[:, 0]
    ratio = torch.exp(new - old)
    plain = -advantages * ratio
    limited = -advantages * torch.clamp(ratio, 0.8, 1.2)
    policy_loss = torch.max(plain, limited).mean()
    value_loss = 0.5 * (values - returns).square().mean()
    loss = policy_loss + 0.1 * value_loss
    return loss


LOGITS = torch.tensor([[0.5, 0.1], [2.0, -1.0], [-1.0, 0.0]])
OLD = torch.tensor([-0.6, -0.8, -0.9])
ADVANTAGES = torch.tensor([1.0, 2.0, -1.0])
VALUES, RETURNS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1.0, 0.0, 0.5])


def test_clipped_ratios(ask):
    given = LOGITS, OLD, ADVANTAGES, VALUES, RETURNS
    rec = ask.function(clipped, lambda: tuple(one.clone() for one in given), wrt=["logits", "values"])
    ratio = (LOGITS.log_softmax(-1)[:, 0] - OLD).exp()
    # the second is above 1.2 with an advantage, and the third below 0.8 without one: neither is pushed further
    is_free = ~((ratio > 1.2) & (ADVANTAGES > 0)) & ~((ratio < 0.8) & (ADVANTAGES < 0))
    ask.that(is_free.tolist() == [True, False, False], f"the example has ratios {ratio.tolist()}")
    ask.gradients(rec, {"ratio": torch.where(is_free, -ADVANTAGES / 3, 0.0), "values": 0.1 * (VALUES - RETURNS) / 3})
    ask.gradients(rec, {"policy_loss": 1.0, "value_loss": 0.1, "loss": 1.0})
    ask.clean(rec)
    ask.works("PPO's clipped ratios: gradients of zero where the clip holds, which is no finding")


# https://github.com/huggingface/trl/blob/main/trl/trainer/grpo_trainer.py
def grouped(around):
    policy = Policy()
    ids, mask = torch.cat([CHOSEN, REJECTED]), torch.cat([MASK, MASK])
    rewards = torch.tensor([1.0, 0.0, 0.5, -1.0])
    with around() as seen:
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        logits = policy(ids)
        per_token = logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        ratio = torch.exp(per_token - per_token.detach())
        per_token_loss = -ratio * advantages[:, None]
        loss = (per_token_loss * mask[:, 1:]).sum() / mask[:, 1:].sum()
        loss.backward()
    return seen, loss, advantages, mask, {name: p.grad for name, p in policy.named_parameters()}


def test_groups_of_answers(ask):
    rec = ask.block(grouped)
    _, advantages, mask, _ = ask.bare(grouped)
    weight = -advantages[:, None] * mask[:, 1:] / mask[:, 1:].sum()
    ask.gradients(rec, {"ratio": weight, "per_token": weight, "per_token_loss": mask[:, 1:] / mask[:, 1:].sum()})
    ask.names(rec, "advantages", "logits", "ratio", "loss")
    ask.clean(rec)
    ask.works("GRPO's ratio of a log probability to itself, detached: 1, with the gradient of the log probability")


# https://github.com/huggingface/trl/blob/main/trl/trainer/reward_trainer.py
def rewarded(around, steps=20, select=None):
    model = nn.Sequential(nn.Embedding(7, 8), nn.Flatten(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with around(model, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            margin = model(CHOSEN) - model(REJECTED)
            loss = -F.logsigmoid(margin).mean()
            loss.backward()
            optimizer.step()
    return seen, loss, {name: p.grad for name, p in model.named_parameters()}


def test_reward_model(ask):
    rec = ask.block(rewarded, 1)
    _, grads = ask.bare(rewarded, 1)
    ask.gradients(rec, {name: grad for name, grad in grads.items() if name != "2.bias"})
    ask.that(bool((abs(grads["2.bias"]) < 1e-6).all()), "the bias cancels in a margin")
    ask.names(rec, "0#0", "0#1", "2#0", "2#1")
    ask.rows(ask.watched(rewarded), "0.weight", "2.weight")
    ask.works("a reward model that is called twice: each call by its number")


# planted: the reference is trained by mistake, the policy is not; and a mean over no token
def wrong_way(around):
    policy = Policy()
    reference = copy.deepcopy(policy)
    with around() as seen:
        policy_logps = logps(policy(CHOSEN), CHOSEN, MASK).detach()  # <- cut
        reference_logps = logps(reference(CHOSEN), CHOSEN, MASK)
        loss = -F.logsigmoid(policy_logps - reference_logps).mean()
        loss.backward()
    return seen, loss, reference.head.weight.grad


def no_tokens(around):
    policy = Policy()
    mask = torch.tensor([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    with around() as seen:
        per_token = policy(CHOSEN)[:, :-1].log_softmax(-1).gather(2, CHOSEN[:, 1:, None])[..., 0]
        mean = (per_token * mask[:, 1:]).sum(1) / mask[:, 1:].sum(1)  # <- nan
        loss = -mean.sum()
        loss.backward()
    return seen, loss


def test_planted(ask):
    rec = ask.block(wrong_way)
    ask.cut(rec, wrong_way)
    rec = ask.block(no_tokens, nonfinite=True)
    ask.nan(rec, no_tokens)


def test_script(ask):
    ask.script(Path(__file__).parent / "scripts" / "direct_preferences.py")
