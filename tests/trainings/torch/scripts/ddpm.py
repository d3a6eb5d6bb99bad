"""Denoising diffusion with an average of the weights, after lucidrains/denoising-diffusion-pytorch."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


def linear_beta_schedule(timesteps):
    scale = 1000 / timesteps
    return torch.linspace(scale * 0.0001, scale * 0.02, timesteps, dtype=torch.float64)


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        emb = torch.cat((emb.sin(), emb.cos()), dim=-1)
        return emb


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, time_emb_dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2))
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(2, dim_out)
        self.act = nn.SiLU()
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb):
        time_emb = self.mlp(time_emb)
        scale, shift = time_emb[:, :, None, None].chunk(2, dim=1)
        h = self.norm(self.proj(x))
        h = self.act(h * (scale + 1) + shift)
        return h + self.res_conv(x)


class Unet(nn.Module):
    def __init__(self, dim=8, channels=3):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, 16), nn.GELU(), nn.Linear(16, 16))
        self.init_conv = nn.Conv2d(channels, dim, 3, padding=1)
        self.down = ResnetBlock(dim, dim, 16)
        self.downsample = nn.Conv2d(dim, dim, 4, 2, 1)
        self.mid = ResnetBlock(dim, dim, 16)
        self.up = ResnetBlock(dim * 2, dim, 16)
        self.final_conv = nn.Conv2d(dim, channels, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        t = self.time_mlp(time)
        h = [self.down(x, t)]
        x = self.downsample(h[-1])
        x = self.mid(x, t)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = torch.cat((x, h.pop()), dim=1)
        x = self.up(x, t)
        return self.final_conv(x)


class GaussianDiffusion(nn.Module):
    def __init__(self, model, timesteps=20):
        super().__init__()
        self.model = model
        self.num_timesteps = timesteps
        betas = linear_beta_schedule(timesteps)
        alphas_cumprod = torch.cumprod(1.0 - betas, dim=0)

        def register_buffer(name, val):
            self.register_buffer(name, val.to(torch.float32))

        register_buffer("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod))
        register_buffer("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod))
        snr = alphas_cumprod / (1 - alphas_cumprod)
        register_buffer("loss_weight", torch.ones_like(snr))

    def q_sample(self, x_start, t, noise):
        return (
            extract(self.sqrt_alphas_cumprod, t, x_start.shape) * x_start
            + extract(self.sqrt_one_minus_alphas_cumprod, t, x_start.shape) * noise
        )

    def p_losses(self, x_start, t, noise=None):
        noise = torch.randn_like(x_start) if noise is None else noise
        x = self.q_sample(x_start=x_start, t=t, noise=noise)
        model_out = self.model(x, t)
        loss = F.mse_loss(model_out, noise, reduction="none")
        loss = loss.flatten(1).mean(1)
        loss = loss * extract(self.loss_weight, t, loss.shape)
        return loss.mean()

    def forward(self, img):
        t = torch.randint(0, self.num_timesteps, (img.shape[0],), device=img.device).long()
        return self.p_losses(img * 2 - 1, t)


class EMA:
    def __init__(self, beta):
        self.beta = beta

    def update_model_average(self, ma_model, current_model):
        for current_params, ma_params in zip(current_model.parameters(), ma_model.parameters()):
            old_weight, up_weight = ma_params.data, current_params.data
            ma_params.data = old_weight * self.beta + (1 - self.beta) * up_weight


diffusion = GaussianDiffusion(Unet())
ema_model = copy.deepcopy(diffusion)
ema = EMA(0.995)
opt = torch.optim.Adam(diffusion.parameters(), lr=1e-3)
for step in range(3):  # each step: diffusion
    for i in range(2):
        img = torch.rand(4, 3, 8, 8)
        loss = diffusion(img)
        (loss / 2).backward()
    torch.nn.utils.clip_grad_norm_(diffusion.parameters(), 1.0)
    opt.step()
    opt.zero_grad()
    ema.update_model_average(ema_model, diffusion)
    print(f"loss: {loss.item():.4f}")
