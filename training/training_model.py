"""The architecture that training/train_builtin_model.py trains: nanochat's of October 2025."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from training_rows import EOS
from training_text import CONTEXT

HEAD_DIM, CAP, THETA = 32, 15.0, 10000.0
QUERY_BLOCK = 128
DROPOUT = 0.1  # of what each layer adds: without it a text seen twenty times is memorised


def norm(x):
    return F.rms_norm(x, (x.shape[-1],), eps=1e-6)


def attention(q, k, v):
    """Causal grouped-query attention: q (n, heads, T, HEAD_DIM), k, v (n, kv_heads, T, HEAD_DIM)."""
    n, heads, length, _ = q.shape
    kv_heads = k.shape[1]
    if q.is_cuda:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    # On a CPU twice as fast as torch's own: blocks of queries by the keys that they see.
    # Norms bound a score by sqrt(HEAD_DIM), so exp cannot overflow without subtracting the maximum.
    parts = []
    for begin in range(0, length, QUERY_BLOCK):
        end = min(begin + QUERY_BLOCK, length)
        rows = q[:, :, begin:end].reshape(n * kv_heads, -1, HEAD_DIM)
        keys, values = (x[:, :, :end].reshape(n * kv_heads, end, HEAD_DIM) for x in (k, v))
        scores = torch.bmm(rows, keys.transpose(1, 2)).view(n * kv_heads, -1, end - begin, end)
        seen = torch.ones(end - begin, end, dtype=torch.bool, device=q.device).tril(begin)
        weights = torch.where(seen, (scores.float() * HEAD_DIM ** -0.5).exp(), 0.0)
        weights = (weights / weights.sum(-1, keepdim=True)).to(q.dtype)
        parts.append(torch.bmm(weights.flatten(1, 2), values).view(n, heads, -1, HEAD_DIM))
    return torch.cat(parts, 2)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.heads, self.kv_heads = shape["heads"], shape["kv_heads"]
        dim, hidden, q_dim = shape["dim"], shape["hidden"], self.heads * HEAD_DIM
        self.qkv = nn.Linear(dim, q_dim + 2 * self.kv_heads * HEAD_DIM, bias=False)
        self.o = nn.Linear(q_dim, dim, bias=False)
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)
        for matrix in (self.qkv, self.up):
            nn.init.uniform_(matrix.weight, -math.sqrt(3 / dim), math.sqrt(3 / dim))
        for matrix in (self.o, self.down):  # at first a layer adds nothing
            nn.init.zeros_(matrix.weight)

    def drop(self, x):
        """Dropout of channels, the same at every position of a row, which needs few random numbers."""
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], 1, x.shape[2], device=x.device) >= DROPOUT
        return x * keep / (1 - DROPOUT)

    def qkv_heads(self, x, cos, sin):
        """Of x (n, T, dim): q, k, v, each (n, its heads, T, HEAD_DIM); q and k rotated (RoPE), then normed."""
        n, length, _ = x.shape
        qkv = self.qkv(norm(x)).view(n, length, -1, HEAD_DIM)
        qk, v = qkv.split([self.heads + self.kv_heads, self.kv_heads], 2)
        a, b = qk.chunk(2, -1)  # as transformers' NanoChat rotates them
        qk = norm(torch.cat([a * cos + b * sin, b * cos - a * sin], -1))
        q, k = qk.to(v.dtype).split([self.heads, self.kv_heads], 2)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def after_attention(self, x, out):
        n, length, _ = x.shape
        x = x + self.drop(self.o(out.transpose(1, 2).reshape(n, length, -1)))
        return x + self.drop(self.down(F.relu(self.up(norm(x))).square()))

    def forward(self, x, cos, sin):
        return self.after_attention(x, attention(*self.qkv_heads(x, cos, sin)))

    def decode_step(self, x, cos, sin, cache, place):
        """The next position, x (n, 1, dim). cache (2, n, kv_heads, capacity, HEAD_DIM): keys and values so far."""
        q, k, v = self.qkv_heads(x, cos, sin)
        cache[:, :, :, place] = torch.stack([k, v])[:, :, :, 0]
        keys, values = cache[:, :, :, :place + 1]
        q = q.reshape(len(x), self.kv_heads, -1, HEAD_DIM)
        weights = (q @ keys.transpose(2, 3) * HEAD_DIM ** -0.5).softmax(-1)
        return self.after_attention(x, (weights @ values).view(len(x), self.heads, 1, HEAD_DIM))


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.embedding = nn.Embedding(shape["vocab"], shape["dim"])
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape["layers"]))
        self.head = nn.Linear(shape["dim"], shape["vocab"], bias=False)
        nn.init.normal_(self.head.weight, std=0.001)
        angles = torch.outer(torch.arange(CONTEXT).float(),
                             THETA ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM))
        self.register_buffer("cos", angles.cos()[None, :, None], persistent=False)
        self.register_buffer("sin", angles.sin()[None, :, None], persistent=False)

    def logits(self, x):
        return CAP * torch.tanh(self.head(norm(x)).float() / CAP)

    def forward(self, ids, pieces, shares):
        """The sum of losses, in nats. pieces, shares (n, T, any number): what is expected behind each of
        ids (n, T).

        Shares sum up to 1, or 0 where nothing counts; several pieces where a teacher expects several
        (Hinton et al. 2015, arXiv 1503.02531). Below 0: the piece is to be less likely, by the
        unlikelihood of Welleck et al. 2019 (arXiv 1908.04319).
        """
        length = ids.shape[1]
        x = norm(self.embedding(ids))
        for layer in self.layers:
            x = layer(x, self.cos[:, :length], self.sin[:, :length])
        logits = self.logits(x)
        log_p = logits.gather(-1, pieces) - logits.logsumexp(-1, keepdim=True)
        other = torch.log1p(-log_p.exp().clamp(max=1 - 1e-5))  # log(1 - p), and finite
        return (torch.where(shares < 0, other, -log_p) * shares).sum()

    @torch.no_grad()
    def generate(self, prompts, length, temperature, top_p, generator):
        """Rows of ids (n, length) that go on from prompts, lists of ids; EOS from where a row ends.

        temperature: one for each row. The numbers are drawn from generator, on the CPU.
        """
        n, device = len(prompts), self.cos.device
        rows = torch.full((n, length), EOS)
        for row, prompt in zip(rows, prompts):
            row[:len(prompt)] = torch.tensor(prompt)
        given = torch.tensor([len(prompt) for prompt in prompts])
        caches = [torch.zeros(2, n, layer.kv_heads, length, HEAD_DIM, device=device) for layer in self.layers]
        temperature, over = torch.tensor(temperature)[:, None], torch.zeros(n, dtype=torch.bool)
        for place in range(length - 1):
            x = norm(self.embedding(rows[:, place:place + 1].to(device)))
            for layer, cache in zip(self.layers, caches):
                x = layer.decode_step(x, self.cos[:, place], self.sin[:, place], cache, place)
            p, order = (self.logits(x)[:, 0].cpu() / temperature).softmax(-1).sort(-1, descending=True)
            sums = torch.where(p.cumsum(-1) - p < top_p, p, 0).cumsum(-1)
            drawn = torch.searchsorted(sums, torch.rand(n, 1, generator=generator) * sums[:, -1:])
            told = order.gather(1, drawn.clamp(max=order.shape[1] - 1))[:, 0]
            own = (given <= place + 1) & ~over
            rows[own, place + 1] = told[own]
            over |= own & (told == EOS)
            if over.all():
                break
        return rows, given
