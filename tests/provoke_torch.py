"""Numerical bugs in PyTorch, each with its stable twin. They are of the kinds that public programs have."""

import math

import torch
import torch.nn.functional as F

from provoke_case import Case

X, W = [[0.5, 1.0], [2.0, -1.0], [-0.3, 0.8]], [0.7, -0.4]
LABELS = [1.0, 0.0, 1.0]
ROWS = [[1.0, 0.5, -0.2], [0.3, -1.0, 0.8]]
ONE_HOT = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
U, V = [0.3, -0.8, 0.5], [1.0, 0.2, -0.4]
POSITIVE = [0.2, 0.5, 1.5, 0.9]
WIDE = (-150.0, 150.0)


def logistic_loss(x, w, labels):
    p = torch.sigmoid(x @ w)
    return -(labels * torch.log(p) + (1 - labels) * torch.log(1 - p)).mean()


def logistic_loss_stable(x, w, labels):
    return F.binary_cross_entropy_with_logits(x @ w, labels)


def cross_entropy(logits, labels):
    p = torch.softmax(logits, dim=1)
    return -(labels * torch.log(p)).sum(dim=1).mean()


def cross_entropy_stable(logits, labels):
    return -(labels * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()


def softmax_by_hand(logits):
    e = torch.exp(logits)
    return e / e.sum(dim=1, keepdim=True)


def softmax_by_hand_stable(logits):
    e = torch.exp(logits - logits.max(dim=1, keepdim=True).values)
    return e / e.sum(dim=1, keepdim=True)


def partition_function(energy):
    return torch.log(torch.exp(-energy).sum())


def partition_function_stable(energy):
    return torch.logsumexp(-energy, dim=0)


def free_energy(v, w):
    return -torch.log(1 + torch.exp(v @ w)).sum()


def free_energy_stable(v, w):
    return -F.softplus(v @ w).sum()


def cosine_similarity(u, v):
    return (u @ v) / torch.sqrt((u @ u) * (v @ v))


def cosine_similarity_stable(u, v):
    return (u @ v) / torch.sqrt((u @ u) * (v @ v) + 1e-8)


def standardized(x):
    centred = x - x.mean()
    return (centred / x.std()).square().sum()


def standardized_stable(x):
    centred = x - x.mean()
    return (centred / torch.sqrt(x.var() + 1e-5)).square().sum()


def layer_norm(x):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance)


def layer_norm_stable(x):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def distance(a, b):
    return torch.sqrt(((a - b) ** 2).sum())


def distance_stable(a, b):
    return torch.sqrt(((a - b) ** 2).sum() + 1e-12)


def spread_in_one_pass(x):
    return torch.sqrt((x * x).mean() - x.mean() ** 2)


def spread_in_one_pass_stable(x):
    return torch.sqrt(((x - x.mean()) ** 2).mean() + 1e-8)


def entropy(counts):
    p = counts / (counts.sum() + 1e-3)
    return -(p * torch.log(p)).sum()


def entropy_stable(counts):
    p = counts / (counts.sum() + 1e-3)
    return -(p * torch.log(p + 1e-6)).sum()


def divergence(p, q):
    return (p * torch.log(p / q)).sum()


def divergence_stable(p, q):
    return (p * torch.log((p + 1e-6) / (q + 1e-6))).sum()


def gaussian_likelihood(x, mean, scale):
    sigma = torch.relu(scale)
    return (torch.log(sigma + 1e-6) + (x - mean) ** 2 / (2 * sigma**2)).sum()


def gaussian_likelihood_stable(x, mean, scale):
    sigma = F.softplus(scale) + 1e-3
    return (torch.log(sigma) + (x - mean) ** 2 / (2 * sigma**2)).sum()


def latent_sample(mean, log_variance):
    return (mean + torch.exp(0.5 * log_variance)).sum()


def latent_sample_stable(mean, log_variance):
    return (mean + torch.exp(0.5 * log_variance.clamp(-20, 20))).sum()


def geometric_mean(x):
    return x.prod() ** (1 / 4)


def geometric_mean_stable(x):
    return torch.exp(torch.log(x.clamp(min=1e-6)).mean())


def angle_between(u, v):
    cosine = F.cosine_similarity(u, v, dim=0)
    return torch.acos(cosine)


def angle_between_stable(u, v):
    cosine = F.cosine_similarity(u, v, dim=0)
    return torch.acos(cosine.clamp(-0.999, 0.999))


def fisher_transform(r):
    return torch.atanh(r).mean()


def fisher_transform_stable(r):
    return torch.atanh(r.clamp(-0.999, 0.999)).mean()


def great_circle(latitude, other):
    half = torch.sin((latitude - other) / 2) ** 2
    return 2 * torch.asin(torch.sqrt(half)).sum()


def great_circle_stable(latitude, other):
    half = torch.sin((latitude - other) / 2) ** 2
    return 2 * torch.asin(torch.sqrt(half.clamp(1e-7, 1 - 1e-7))).sum()


def gamma_correction(image):
    return (image ** (1 / 2.2)).mean()


def gamma_correction_stable(image):
    return (image.clamp(min=1e-4) ** (1 / 2.2)).mean()


def harmonic_mean(x):
    return x.numel() / torch.reciprocal(x).sum()


def harmonic_mean_stable(x):
    return x.numel() / torch.reciprocal(x.abs() + 1e-3).sum()


def min_max_scaled(x):
    low, high = x.min(), x.max()
    return ((x - low) / (high - low)).sum()


def min_max_scaled_stable(x):
    low, high = x.min(), x.max()
    return ((x - low) / (high - low + 1e-6)).sum()


def weighted_mean(x, weights):
    return (x * weights).sum() / weights.sum()


def weighted_mean_stable(x, weights):
    return (x * torch.softmax(weights, dim=0)).sum()


def focal_loss(logits):
    p = torch.sigmoid(logits)
    return -((1 - p) ** 0.5 * F.logsigmoid(logits)).sum()


def focal_loss_stable(logits):
    p = torch.sigmoid(logits)
    return -((1 - p) ** 2 * F.logsigmoid(logits)).sum()


def poisson_loss(features, w, counts):
    rate = torch.exp(features @ w)
    return (rate - counts * (features @ w)).mean()


def poisson_loss_stable(features, w, counts):
    score = (features @ w).clamp(max=30)
    return (torch.exp(score) - counts * score).mean()


def dice_loss(prediction, mask):
    overlap = (prediction * mask).sum()
    return 1 - 2 * overlap / (prediction.sum() + mask.sum())


def dice_loss_stable(prediction, mask):
    overlap = (prediction * mask).sum()
    return 1 - (2 * overlap + 1) / (prediction.sum() + mask.sum() + 1)


def log_returns(returns):
    return torch.log1p(returns).sum()


def log_returns_stable(returns):
    return torch.log1p(returns.clamp(min=-0.99)).sum()


def log_odds(p):
    return torch.logit(p).sum()


def log_odds_stable(p):
    return torch.logit(p, eps=1e-6).sum()


def root_where_positive(x):
    return torch.where(x > 0, torch.sqrt(x), torch.zeros_like(x)).sum()


def root_where_positive_stable(x):
    safe = torch.where(x > 0, x, torch.ones_like(x))
    return torch.where(x > 0, torch.sqrt(safe + 1e-8), torch.zeros_like(x)).sum()


def log_cosh_loss(error):
    return torch.log(torch.cosh(error)).mean()


def log_cosh_loss_stable(error):
    return (error + F.softplus(-2 * error) - math.log(2)).mean()


def half_energy(x):
    h = x.half()
    return (h**2).mean().float()


def half_energy_stable(x):
    h = x.half().float()
    return (h**2).mean()


CASES = [
    Case("the probability rounds to 0 or 1", "torch.log(1 - p)", logistic_loss, logistic_loss_stable, (X, W, LABELS),
         {"x": (-60.0, 60.0), "labels": None}),
    Case("softmax rounds to 0", "torch.log(p)", cross_entropy, cross_entropy_stable, (ROWS, ONE_HOT),
         {"logits": WIDE, "labels": None}),
    Case("exp overflows in a softmax", "torch.exp(logits)", softmax_by_hand, softmax_by_hand_stable, (ROWS,), WIDE),
    Case("exp overflows, or all of them underflow", "torch.exp(-energy)", partition_function,
         partition_function_stable, (POSITIVE,), WIDE),
    Case("exp overflows in a softplus", "torch.exp(v @ w)", free_energy, free_energy_stable, (X, W), (-20.0, 20.0)),
    Case("a vector of zeros has no direction", "(u @ v) / torch.sqrt((u @ u) * (v @ v))", cosine_similarity,
         cosine_similarity_stable, (U, V)),
    Case("equal numbers have no spread", "centred / x.std()", standardized, standardized_stable, (POSITIVE,)),
    Case("a row of equal numbers", "torch.rsqrt(variance)", layer_norm, layer_norm_stable, (ROWS,)),
    Case("the derivative of a root at 0", "torch.sqrt(((a - b) ** 2).sum())", distance, distance_stable, (U, V)),
    Case("a variance rounds to less than 0", "torch.sqrt((x * x).mean() - x.mean() ** 2)", spread_in_one_pass,
         spread_in_one_pass_stable, (POSITIVE,)),
    Case("0 times the logarithm of 0", "torch.log(p)", entropy, entropy_stable, (POSITIVE,), (0.0, 2.0)),
    Case("a class that never occurs", "torch.log(p / q)", divergence, divergence_stable,
         ([0.2, 0.5, 0.3], [0.4, 0.4, 0.2]), (0.0, 1.0)),
    Case("a scale of 0", "(x - mean) ** 2 / (2 * sigma ** 2)", gaussian_likelihood, gaussian_likelihood_stable,
         (U, V, POSITIVE[:3]), (-2.0, 2.0)),
    Case("exp of a log-variance overflows", "torch.exp(0.5 * log_variance)", latent_sample, latent_sample_stable,
         (U, V), (-300.0, 300.0)),
    Case("the derivative of a fractional power at 0", "x.prod() ** (1 / 4)", geometric_mean, geometric_mean_stable,
         (POSITIVE,), (0.0, 2.0)),
    Case("two vectors of one direction", "torch.acos(cosine)", angle_between, angle_between_stable, (U, V)),
    Case("a correlation of 1", "torch.atanh(r)", fisher_transform, fisher_transform_stable, (U,), (-1.0, 1.0)),
    Case("two points at one place", "torch.sqrt(half)", great_circle, great_circle_stable, (U, V)),
    Case("a black pixel", "image ** (1 / 2.2)", gamma_correction, gamma_correction_stable,
         ([[0.2, 0.9], [0.4, 0.6]],), (0.0, 1.0)),
    Case("one of the numbers is 0", "torch.reciprocal(x)", harmonic_mean, harmonic_mean_stable, (POSITIVE,),
         (-2.0, 2.0)),
    Case("all numbers are equal", "(x - low) / (high - low)", min_max_scaled, min_max_scaled_stable, (POSITIVE,)),
    Case("weights that sum to 0", "(x * weights).sum() / weights.sum()", weighted_mean, weighted_mean_stable, (U, V)),
    Case("the derivative of a power where sigmoid rounds to 1", "(1 - p) ** 0.5", focal_loss, focal_loss_stable, (U,),
         (-40.0, 40.0)),
    Case("exp of a score overflows", "torch.exp(features @ w)", poisson_loss, poisson_loss_stable, (X, W, LABELS),
         {"features": (-50.0, 50.0), "w": (-5.0, 5.0), "counts": None}),
    Case("an empty mask and no prediction", "2 * overlap / (prediction.sum() + mask.sum())", dice_loss,
         dice_loss_stable, ([0.2, 0.9, 0.6], [0.0, 1.0, 1.0]), (0.0, 1.0)),
    Case("a total loss", "torch.log1p(returns)", log_returns, log_returns_stable, ([0.1, -0.05, 0.02],), (-1.0, 1.0)),
    Case("a probability of 0 or 1", "torch.logit(p)", log_odds, log_odds_stable, ([0.2, 0.7, 0.4],), (0.0, 1.0)),
    Case("the branch that is not taken has an infinite derivative", "torch.sqrt(x)", root_where_positive,
         root_where_positive_stable, (POSITIVE,), (-1.0, 2.0)),
    Case("cosh overflows", "torch.cosh(error)", log_cosh_loss, log_cosh_loss_stable, (U,), WIDE),
    Case("a square in half precision", "h ** 2", half_energy, half_energy_stable, (U,), (-400.0, 400.0)),
]  # fmt: skip
