"""Programs of PyTorch whose derivatives are right, a hundred and more: none of them may be blamed."""

import torch
import torch.nn.functional as F
from torch.autograd import Function

from custom import custom


def numbers(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape)))


a, b, c = numbers(3, 4), numbers(3, 4, seed=1), numbers(4, seed=2)
square, image, cube = numbers(4, 4), numbers(2, 3, 8, 8), numbers(2, 3, 4)
positive = a.abs() + 0.1
inner = a.tanh() * 0.9
complex_ = numbers(3, 4, dtype=torch.complex64)
ids = torch.tensor([0, 2, 2])

ONE = {
    # of one element each
    "abs": lambda x: torch.abs(x),
    "exp": lambda x: x.exp(),
    "sin": lambda x: x.sin(),
    "tan": lambda x: torch.tan(x),
    "tanh": lambda x: torch.tanh(x),
    "sigmoid": lambda x: torch.sigmoid(x),
    "erf": lambda x: torch.erf(x),
    "atan": lambda x: x.atan(),
    "sinh": lambda x: x.sinh(),
    "asinh": lambda x: x.asinh(),
    "sinc": lambda x: x.sinc(),
    "expm1": lambda x: x.expm1(),
    "square": lambda x: x.square(),
    "neg": lambda x: -x,
    "sign": lambda x: x.sign() * x,
    "relu": lambda x: F.relu(x),
    "gelu": lambda x: F.gelu(x),
    "tanh gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x),
    "elu": lambda x: F.elu(x),
    "selu": lambda x: F.selu(x),
    "celu": lambda x: F.celu(x),
    "softplus": lambda x: F.softplus(x),
    "mish": lambda x: F.mish(x),
    "hardtanh": lambda x: F.hardtanh(x),
    "hardswish": lambda x: F.hardswish(x),
    "leaky relu": lambda x: F.leaky_relu(x),
    "relu6": lambda x: F.relu6(x),
    "logsigmoid": lambda x: F.logsigmoid(x),
    "softsign": lambda x: F.softsign(x),
    "tanhshrink": lambda x: F.tanhshrink(x),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "round": lambda x: x.round() * x,
    "frac": lambda x: x.frac(),
    "where": lambda x: torch.where(x > 0, x.sin(), x.cos()),
    "power": lambda x: x**3,
    "reciprocal": lambda x: 1 / x,
    "nan_to_num": lambda x: x.nan_to_num(),
    "masked_fill": lambda x: x.masked_fill(x > 1, 0.0),
    # of several
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "sum": lambda x: x.sum(),
    "logsumexp": lambda x: x.logsumexp(0),
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(0),
    "prod": lambda x: x.prod(-1),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(1),
    "norm": lambda x: x.norm(),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "max": lambda x: x.max(),
    "max along": lambda x: x.max(1).values,
    "topk": lambda x: x.topk(2).values,
    "sort": lambda x: x.sort().values,
    "median": lambda x: x.median(),
    "amax": lambda x: x.amax(0),
    "normalize": lambda x: F.normalize(x),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "dist": lambda x: torch.cdist(x, x * 2),
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "unfold": lambda x: x.unfold(1, 2, 1) ** 2,
    "diff": lambda x: x.diff(),
    # that move things
    "transpose": lambda x: x.T.contiguous() * 2,
    "reshape": lambda x: x.reshape(2, 6),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0),
    "index": lambda x: x[ids],
    "slice": lambda x: x[1:, ::2] * 3,
    "gather": lambda x: x.gather(0, ids[None]),
    "tril": lambda x: x.tril(),
    "mask": lambda x: x[x > 0],
    "expand": lambda x: x[:1].expand(5, 4),
    "repeat": lambda x: x.repeat(2, 1),
    "pad": lambda x: F.pad(x, (1, 1)),
    "cat": lambda x: torch.cat([x, x * 2]),
    "stack": lambda x: torch.stack((x, x.exp())),
    "split": lambda x: x.split(2, 1)[1].sin(),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "outer": lambda x: torch.outer(x[0], x[1]),
    "chunk": lambda x: x.chunk(3)[2],
    "diagonal": lambda x: x.diagonal().exp(),
    "to": lambda x: x.to(torch.float64).exp().float(),
    "clone": lambda x: x.clone().mul_(2),
    "detach": lambda x: x * x.detach(),
    "no_grad": lambda x: x * _quietly(x),
    "item": lambda x: x * x[0, 0].item(),
    "fft": lambda x: torch.fft.fft(x).abs(),
    "rfft": lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2),
    "complex": lambda x: torch.complex(x, x * 2).angle(),
    # that are random
    "dropout": lambda x: F.dropout(x),
    "noise": lambda x: x * torch.rand_like(x),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel": lambda x: F.gumbel_softmax(x),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()) * x,
}

OF_POSITIVE = {
    "log": lambda x: x.log(),
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.rsqrt(),
    "lgamma": lambda x: x.lgamma(),
    "digamma": lambda x: x.digamma(),
    "log1p": lambda x: x.log1p(),
    "pow": lambda x: x**1.7,
    "xlogy": lambda x: torch.xlogy(x, x),
    "entropy": lambda x: -(x * x.log()).sum(),
    "log2": lambda x: x.log2(),
    "i0": lambda x: torch.i0(x),
}

OF_SMALL = {
    "asin": lambda x: x.asin(),
    "acos": lambda x: x.acos(),
    "atanh": lambda x: x.atanh(),
    "erfinv": lambda x: x.erfinv(),
    "logit": lambda x: (x * 0.5 + 0.5).logit(),
    "i1": lambda x: torch.special.i1(x),
}

OF_TWO = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - 2 * y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": lambda x, y: torch.maximum(x, y),
    "atan2": lambda x, y: torch.atan2(x, y),
    "hypot": lambda x, y: torch.hypot(x, y),
    "matmul": lambda x, y: x @ y.T,
    "mse": lambda x, y: F.mse_loss(x, y),
    "smooth l1": lambda x, y: F.smooth_l1_loss(x, y),
    "cosine": lambda x, y: F.cosine_similarity(x, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2.0),
    "kl": lambda x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"),
    "huber": lambda x, y: F.huber_loss(x, y),
    "in place": lambda x, y: (x * 1).add_(y).sin_(),
    "bmm": lambda x, y: torch.bmm(x[None], y.T[None]),
    "logaddexp": lambda x, y: torch.logaddexp(x, y),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None], y[None], y[None]),
    "where two": lambda x, y: torch.where(x > y, x, y * 2),
    "bce": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "vdot": lambda x, y: torch.dot(x[0], y[1]),
}

OF_SQUARE = {
    "inverse": lambda x: torch.linalg.inv(x),
    "det": lambda x: torch.linalg.det(x),
    "slogdet": lambda x: torch.linalg.slogdet(x).logabsdet,
    "solve": lambda x: torch.linalg.solve(x, x[0]),
    "matrix_exp": lambda x: torch.matrix_exp(x),
    "trace": lambda x: x.trace(),
    "cholesky": lambda x: torch.linalg.cholesky(x @ x.T + torch.eye(4)),
    "svdvals": lambda x: torch.linalg.svdvals(x),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(x + x.T),
    "qr": lambda x: torch.linalg.qr(x).R,
    "pinv": lambda x: torch.linalg.pinv(x[:3]),
    "matrix norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
}

OF_COMPLEX = {
    "complex mul": lambda z: z * z.conj(),
    "complex exp": lambda z: z.exp(),
    "complex abs": lambda z: z.abs(),
    "angle": lambda z: z.angle(),
    "real": lambda z: z.real * z.imag,
    "complex matmul": lambda z: z @ z.mH,
    "ifft": lambda z: torch.fft.ifft(z),
    "polar": lambda z: torch.polar(z.abs(), z.angle()),
}

MODULES = {
    "linear": (torch.nn.Linear(4, 5), a),
    "conv": (torch.nn.Conv2d(3, 2, 3), image),
    "batch norm": (torch.nn.BatchNorm2d(3), image),
    "lstm": (torch.nn.LSTM(4, 3), a[:, None]),
    "gru": (torch.nn.GRU(4, 3), a[:, None]),
    "group norm": (torch.nn.GroupNorm(1, 3), image),
    "attention module": (torch.nn.MultiheadAttention(4, 2, batch_first=True), a[None], a[None], a[None]),
    "encoder": (torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.1), a[None]),
    "prelu": (torch.nn.PReLU(), a),
    "transposed": (torch.nn.ConvTranspose2d(3, 2, 3), image),
    "bilinear": (torch.nn.Bilinear(4, 4, 2), a, b),
    "sequence": (
        torch.nn.Sequential(
            torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.5), torch.nn.Linear(4, 2)
        ),
        a,
    ),
    "rms norm": (torch.nn.RMSNorm(4), a),
    "embedding": (torch.nn.Embedding(5, 4), ids),
    "embedding bag": (torch.nn.EmbeddingBag(5, 4), ids[None]),
}
"""Modules, and what they are given; of several outputs the first counts."""


def applied(module, *given):
    def program():
        output = module(*given)
        return output[0] if isinstance(output, tuple) else output

    return program


affine = torch.nn.Linear(4, 5)
WITH_MODULES = {
    **{name: applied(*module_and_given) for name, module_and_given in MODULES.items()},
    "linear function": lambda: F.linear(a, affine.weight, affine.bias),
}

OF_IMAGE = {
    "max pool": lambda x: F.max_pool2d(x, 2),
    "average pool": lambda x: F.avg_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "conv2d": lambda x: F.conv2d(x, x[:, :, :3, :3]),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 3),
    "local norm": lambda x: F.local_response_norm(x, 2),
    "grid": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
    "pixels": lambda x: F.pixel_unshuffle(x, 2),
    "instance norm": lambda x: F.instance_norm(x),
    "unfold image": lambda x: F.unfold(x, 3),
}


def _quietly(x):
    with torch.no_grad():
        return x.exp()


Cubed = custom("Cubed", lambda x: x**3, lambda g, x: 3 * g * x**2)


class Both(Function):
    """Two outputs, one of which is not differentiable."""

    @staticmethod
    def forward(ctx, x):
        values, places = x.max(1)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places

    @staticmethod
    def backward(ctx, g, _):
        (places,) = ctx.saved_tensors
        return g.new_zeros(ctx.shape).scatter(1, places[:, None], g[:, None])


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, g):
        return g * 3


Single = custom("Single", lambda x: x.exp(), lambda g, x: (g.float() * x.float().exp()).to(g.dtype))
"""Its backward pass is in single precision, whatever the forward pass was in."""


def sine_of_single(x):
    """Refuses double precision, as kernels do."""
    if x.dtype != torch.float32:
        raise TypeError("a kernel for float32")
    return x.sin()


OnlySingle = custom("OnlySingle", sine_of_single, lambda g, x: g * x.cos())


class Quotient(Function):
    @staticmethod
    def forward(a, b, scale):
        return scale * a / b

    @staticmethod
    def setup_context(ctx, inputs, output):
        a, b, ctx.scale = inputs
        ctx.save_for_backward(a, b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return ctx.scale * g / b, (-ctx.scale * g * a / b**2).sum_to_size(b.shape), None


def residual(x, w):
    h = x
    for _ in range(3):
        h = h + (h @ w).relu() / (1 + h.square().mean(-1, keepdim=True))
    return F.cross_entropy(h, ids)


def written(x):
    y = x * 2
    y[0] = x[1].exp()
    y[:, 1] *= 3
    y -= y.mean()
    y.clamp_(-1, 1)
    return (y if y.sum() > 1e9 else y.sin()).sum()


def comprehended(x):
    rows = [row.norm() * at for at, row in enumerate(x) if at % 2 == 0]
    total = sum(rows)
    return {"total": total, "rows": torch.stack(rows)}


CUSTOM = {
    "custom": lambda x: Cubed.apply(x).sum(),
    "two outputs": lambda x: Both.apply(x)[0],
    "in place custom": lambda x: InPlace.apply(x * 1),
    "single backward": lambda x: Single.apply(x),
    "only single": lambda x: OnlySingle.apply(x),
    "custom quotient": lambda x: Quotient.apply(x, x[0] + 5, 2.0),
    "custom twice": lambda x: Cubed.apply(Cubed.apply(x)),
    "written": written,
    "comprehended": comprehended,
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(Cubed.apply, x, use_reentrant=False),
    "partial": lambda x: __import__("functools").partial(torch.add, alpha=2)(x, x.exp()),
    "map": lambda x: sum(map(torch.sin, x)),
}

RIGHT = {
    **{name: (program, (a,)) for name, program in ONE.items()},
    **{name: (program, (positive,)) for name, program in OF_POSITIVE.items()},
    **{name: (program, (inner,)) for name, program in OF_SMALL.items()},
    **{name: (program, (a, b)) for name, program in OF_TWO.items()},
    **{name: (program, (square,)) for name, program in OF_SQUARE.items()},
    **{name: (program, (complex_,)) for name, program in OF_COMPLEX.items()},
    **{name: (program, ()) for name, program in WITH_MODULES.items()},
    **{name: (program, (image,)) for name, program in OF_IMAGE.items()},
    **{name: (program, (a,)) for name, program in CUSTOM.items()},
    "residual": (residual, (a, square)),
}
