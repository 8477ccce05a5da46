"""Gaussian splats by a plain rasterizer in PyTorch, from other formulas than the library's; derivatives by autograd.

The response of a ray d to a Gaussian with mean m and precision matrix P is taken as it is defined, q = m'Pm - (m'Pd)^2 / d'Pd
with P a matrix inverse; EWA's as the inverse of a projected covariance matrix. Spherical harmonics come from associated
Legendre functions, and are compared with SciPy's. A pixel goes through all Gaussians; there are no tiles.
"""
import math

import numpy as np
import scipy.special
import torch

from .case import *
from .derivative import by_torch

SOURCE = "PyTorch, a plain rasterizer in f64"


def rotation_matrix(q):
    """Of quaternions (x, y, z, w), as exp of the cross-product matrix would have it: v + 2 w (u x v) + 2 u x (u x v)."""
    q = q / q.norm(dim=-1, keepdim=True)
    u, w = q[..., :3], q[..., 3]
    eye = torch.eye(3, dtype=q.dtype)
    columns = []
    for i in range(3):
        v = eye[i].expand_as(u)
        once = torch.linalg.cross(u, v)
        columns.append(v + 2 * w[..., None] * once + 2 * torch.linalg.cross(u, once))
    return torch.stack(columns, -1)


def legendre(l, m, z):
    """P_l^m / (1 - z^2)^(m/2), Condon and Shortley's sign included, by the recurrences in l."""
    one = (-1.0) ** m * math.prod(range(1, 2 * m, 2)) * torch.ones_like(z)
    if l == m:
        return one
    before, now = one, (2 * m + 1) * z * one
    for k in range(m + 2, l + 1):
        before, now = now, ((2 * k - 1) * z * now - (k + m - 1) * before) / (k - m)
    return now


def harmonics(d, count):
    """Real spherical harmonics of unit vectors d[..., 3], m from -l to l."""
    x, y, z = d.unbind(-1)
    cosine, sine = [torch.ones_like(x)], [torch.zeros_like(x)]  # r^m cos(m phi), r^m sin(m phi)
    for _ in range(3):
        cosine.append(cosine[-1] * x - sine[-1] * y)
        sine.append(sine[-1] * x + cosine[-2] * y)
    out = []
    for l in range(math.isqrt(count)):
        for m in range(-l, l + 1):
            k = abs(m)
            norm = math.sqrt((2 * l + 1) / (4 * math.pi) * math.factorial(l - k) / math.factorial(l + k))
            angular = (cosine if m >= 0 else sine)[k]
            out.append((norm if m == 0 else math.sqrt(2) * norm) * legendre(l, k, z) * angular)
    return torch.stack(out, -1) if out else torch.zeros(*x.shape, 0, dtype=d.dtype)


def check_harmonics():
    d = rng("harmonics").standard_normal((50, 3))
    d /= np.linalg.norm(d, axis=-1, keepdims=True)
    theta, phi = np.arccos(d[:, 2]), np.arctan2(d[:, 1], d[:, 0])
    got, i = harmonics(torch.from_numpy(d), 16).numpy(), 0
    for l in range(4):
        for m in range(-l, l + 1):
            y = scipy.special.sph_harm_y(l, abs(m), theta, phi)  # has Condon and Shortley's sign
            want = y.real if m == 0 else math.sqrt(2) * (y.real if m > 0 else y.imag)
            assert np.abs(got[:, i] - want).max() < 1e-13
            i += 1


def frame(camera):
    position, target, up, fov = camera[..., :3], camera[..., 3:6], camera[..., 6:9], camera[..., 9]
    forward = torch.nn.functional.normalize(target - position, dim=-1)
    right = torch.nn.functional.normalize(torch.linalg.cross(forward, up), dim=-1)
    return position, torch.stack([right, torch.linalg.cross(forward, right), forward], -2), fov


class Scene:
    """One camera, n Gaussians: what of them the camera sees, the nearest first."""

    def __init__(self, positions, log_scales, rotations, opacities, colors, sh, camera, width, height, near=0.01, far=math.inf,
                 radius_scale=3.0, footprint="ray", low_pass=0.0, tile_size=8, **_):
        position, axes, fov = frame(camera)
        self.width, self.height, self.n, self.near, self.far = width, height, len(positions), near, far
        self.focal = height / 2 / torch.tan(fov / 2)
        seen = (positions - position) @ axes.T
        depths = seen[:, 2].detach()
        visible = (depths > near) & (depths < far)
        order = sorted(range(self.n), key=lambda i: (float(depths[i]) if visible[i] else math.inf, i))
        self.order, self.count = torch.tensor(order, dtype=torch.int32), int(visible.sum())
        order = order[:self.count]
        self.m = seen[order]
        rotation = axes @ rotation_matrix(rotations[order])
        self.covariance = rotation @ torch.diag_embed(torch.exp(2 * log_scales[order])) @ rotation.mT
        self.precision = torch.linalg.inv(self.covariance)
        direction = torch.nn.functional.normalize(positions[order] - position, dim=-1)
        self.colors = torch.relu(colors[order] + torch.einsum("nk,nkc->nc", harmonics(direction, sh.shape[-2]), sh[order]))
        self.opacities = torch.sigmoid(opacities[order])
        x, y, z = self.m.unbind(-1)
        zero = torch.zeros_like(x)
        jacobian = torch.stack([torch.stack([self.focal / z, zero, -self.focal * x / z**2], -1),
                                torch.stack([zero, self.focal / z, -self.focal * y / z**2], -1)], -2)
        self.flat = jacobian @ self.covariance @ jacobian.mT + low_pass * torch.eye(2, dtype=x.dtype)
        self.center = torch.stack([width / 2 + self.focal * x / z, height / 2 + self.focal * y / z], -1)
        self.ray, self.radius, self.tile = footprint == "ray", radius_scale, tile_size
        self.low_pass = low_pass

    def splats(self):
        """The 15 numbers of each, in rows; zeros for those that are not seen."""
        conic = torch.linalg.inv(self.flat)
        c = self.m / self.m[:, 2:]
        pc = torch.einsum("nij,nj->ni", self.precision, c)
        n0 = (pc * c).sum(-1)
        slope = 2 * pc[:, :2] / n0[:, None] / self.focal
        bend = self.precision[:, :2, :2] / n0[:, None, None] / self.focal**2
        if not self.ray:
            slope, bend = slope * 0, bend * 0
        rows = torch.cat([self.m[:, 2:], self.center, conic[:, 0, :1], conic[:, 0, 1:], conic[:, 1, 1:], slope, bend[:, 0, :1],
                          bend[:, 0, 1:], bend[:, 1, 1:], self.opacities[:, None], self.colors], -1)
        return torch.cat([rows, torch.zeros(self.n - self.count, 15, dtype=rows.dtype)])

    def tiles(self):
        out = torch.zeros(self.n, 4, dtype=torch.int32)
        for i in range(self.count):
            sides = []
            for axis, pixels in ((0, self.width), (1, self.height)):
                reach, center = self.radius * math.sqrt(float(self.flat[i, axis, axis].detach())), float(self.center[i, axis].detach())
                tiles = -(-pixels // self.tile)
                touched = [t for t in range(tiles) if t * self.tile <= center + reach and (t + 1) * self.tile > center - reach]
                sides.append((touched[0], touched[-1] + 1) if touched else None)
            if all(sides):
                out[i] = torch.tensor([sides[0][0], sides[1][0], sides[0][1], sides[1][1]], dtype=torch.int32)
        return out

    def image(self, background, alpha_cutoff=1 / 255, max_splat_steps=32768, transmittance_threshold=1e-4, gamma=2.2, **_):
        dtype = self.m.dtype
        y, x = torch.meshgrid(torch.arange(self.height, dtype=dtype) + 0.5, torch.arange(self.width, dtype=dtype) + 0.5, indexing="ij")
        light, count, color = torch.ones_like(x), torch.zeros_like(x), torch.zeros(self.height, self.width, 3, dtype=dtype)
        for i in range(self.count):
            offset = torch.stack([x - self.center[i, 0], y - self.center[i, 1]], -1)
            q = torch.einsum("yxi,ij,yxj->yx", offset, torch.linalg.inv(self.flat[i]), offset)
            distance = q
            if self.ray:
                ray = torch.stack([(x - self.width / 2) / self.focal, (y - self.height / 2) / self.focal, torch.ones_like(x)], -1)
                m, p = self.m[i], self.precision[i]
                along = torch.einsum("yxi,ij,yxj->yx", ray, p, ray)
                distance = m @ p @ m - (ray @ (p @ m))**2 / along
                if self.low_pass:  # what is blurred keeps the ratio of the two
                    sharp = torch.einsum("yxi,ij,yxj->yx", offset, torch.linalg.inv(self.flat[i] - self.low_pass * torch.eye(2, dtype=dtype)), offset)
                    distance = q * (distance / sharp)
            alpha = self.opacities[i] * torch.exp(-distance / 2)
            counts = (q <= self.radius**2) & (alpha >= alpha_cutoff) & (light >= transmittance_threshold) & (count < max_splat_steps)
            alpha = torch.where(counts, alpha, 0.0)
            color = color + (light * alpha)[..., None] * self.colors[i]
            light, count = light * (1 - alpha), count + counts
        color = color + light[..., None] * background
        if gamma != 1:
            color = torch.where(color > 0, torch.where(color > 0, color, 1.0)**(1 / gamma), 0.0)
        return torch.cat([color, (1 - light)[..., None]], -1)


def drawn(splats, background, width, height, alpha_cutoff=1 / 255, transmittance_threshold=1e-4, gamma=2.2, radius_scale=3.0, **_):
    """Rows of 15 numbers as the op defines them: all pixels and rows as one array, products of light by cumprod."""
    dtype = splats.dtype
    s = splats.unbind(-1)
    y, x = torch.meshgrid(torch.arange(height, dtype=dtype) + 0.5, torch.arange(width, dtype=dtype) + 0.5, indexing="ij")
    dx, dy = x[..., None] - s[1], y[..., None] - s[2]
    q = s[3] * dx**2 + 2 * s[4] * dx * dy + s[5] * dy**2
    alpha = s[11] * torch.exp(-q / (2 * (1 + s[6] * dx + s[7] * dy + s[8] * dx**2 + 2 * s[9] * dx * dy + s[10] * dy**2)))
    alpha = torch.where((q <= radius_scale**2) & (alpha >= alpha_cutoff), alpha, 0.0)
    one = torch.ones_like(alpha[..., :1])
    before = torch.cat([one, torch.cumprod(1 - alpha, -1)], -1)[..., :-1]
    alpha = torch.where(before >= transmittance_threshold, alpha, 0.0)
    light = torch.prod(1 - alpha, -1, keepdim=True)
    color = (before * alpha) @ splats[:, 12:] + light * background
    return torch.cat([color if gamma == 1 else color**(1 / gamma), 1 - light], -1)


def each(f, batch, tensors):
    """f of the slices of all tensors, stacked again over the leading dims."""
    flat = [t.reshape(math.prod(batch), *t.shape[len(batch):]) for t in tensors]
    results = [f(*(t[i] for t in flat)) for i in range(math.prod(batch))]
    stacked = [torch.stack(r) for r in zip(*results)]
    return [r.reshape(*batch, *r.shape[1:]) for r in stacked]


def scene(case, n, c, dtype, batch=(), spread=0.9, depth=4.0):
    def some(name, *dims):
        return uniform(f"{case}/{name}", (*batch, *dims), 0, 1, f64)

    camera = np.concatenate([some("eye", 3) * 0.6 + [0.1, -0.4, -depth], some("target", 3) * 0.4 - 0.2,
                             some("up", 3) * 0.2 + [0, 0.9, 0], some("fov", 1) * 0.3 + 0.7], -1)
    return [x.astype(dtype) for x in (
        normal(f"{case}/positions", (*batch, n, 3), f64, spread), some("log_scales", n, 3) * 2.0 - 2.6,
        normal(f"{case}/rotations", (*batch, n, 4), f64), normal(f"{case}/opacities", (*batch, n), f64, 1.5) + 0.5,
        some("colors", n, 3) * 0.8 + 0.1, normal(f"{case}/sh", (*batch, n, c, 3), f64, 0.25), camera)]


def cases():
    check_harmonics()
    f = Family("splat")
    settings = [
        # name, n, c, dtype, batch, attributes, of the scene
        ("ray", 12, 16, f64, (), dict(width=20, height=14), {}),
        ("ewa", 12, 4, f64, (), dict(width=17, height=13, footprint="ewa", low_pass=0.3, gamma=1.0), {}),
        ("near_and_wide", 9, 1, f64, (), dict(width=11, height=19, tile_size=5, near=0.4, far=4.2), dict(depth=1.5)),
        ("blurred_ray", 7, 0, f64, (), dict(width=16, height=16, low_pass=0.8, gamma=1.8), {}),
        ("batch", 5, 9, f64, (2, 3), dict(width=9, height=7, radius_scale=2.0, alpha_cutoff=0.03), {}),
        ("opaque", 30, 1, f64, (), dict(width=12, height=12, transmittance_threshold=0.05, max_splat_steps=6, gamma=1.0), dict(spread=0.4)),
        ("one", 1, 16, f64, (), dict(width=33, height=1), {}),
        ("behind", 6, 1, f64, (), dict(width=6, height=6), dict(depth=-4.0)),
        ("single", 12, 16, f32, (), dict(width=20, height=14), {}),
        ("single_ewa", 20, 4, f32, (), dict(width=18, height=18, footprint="ewa", low_pass=0.3, gamma=1.0), {}),
        ("half", 6, 4, f16, (), dict(width=9, height=8), {}),
        ("brain", 6, 1, bf16, (), dict(width=8, height=9, footprint="ewa"), {}),
    ]
    for name, n, c, dtype, batch, attributes, of_scene in settings:
        operands = scene(name, n, c, dtype, batch, **of_scene)
        background = uniform(f"{name}/background", (*batch, 3), 0.05, 0.9, dtype)

        def prepare(*tensors):
            def one(*operands):
                s = Scene(*operands, **attributes)
                return s.splats(), s.order, s.tiles()
            return each(one, batch, tensors)

        def render(*tensors):
            return each(lambda *operands: [Scene(*operands[:7], **attributes).image(operands[7], **attributes)], batch, tensors)

        # The numbers of a splat in half precision are compared as an image: which tile is touched may hang on a rounding.
        if dtype in (f64, f32):
            f.add_derivative(f"prepare_{name}", "gaussian_splat_prepare", operands, by_torch, prepare, SOURCE, **attributes)
        f.add_derivative(f"render_{name}", "gaussian_splat_render", [*operands, background], by_torch, render, SOURCE, **attributes)

    for name, n, c, dtype, batch, attributes, of_scene in (settings[0], settings[1], settings[4], settings[9]):
        rows = each(lambda *operands: [Scene(*operands, **attributes).splats()], batch,
                    [torch.from_numpy(x.astype(f64)) for x in scene(name, n, c, dtype, batch, **of_scene)])[0].numpy().astype(dtype)
        operands = [rows, uniform(f"{name}/background", (*batch, 3), 0.05, 0.9, dtype)]

        def raster(*tensors):
            return each(lambda *operands: [drawn(*operands, **attributes)], batch, tensors)

        f.add_derivative(f"rasterize_{name}", "gaussian_splat_rasterize", operands, by_torch, raster, SOURCE, **attributes)
        _, (ct,), gradients = by_torch(f"rasterize_backward_{name}", raster, operands)
        f.add(f"rasterize_backward_{name}", "gaussian_splat_rasterize_backward", [*operands, ct], gradients, SOURCE, **attributes)

    # The published backward kind: the same cotangents by name, unrestrained.
    for name, n, c, dtype, batch, attributes, of_scene in settings[:2]:
        operands = [*scene(name, n, c, dtype, batch, **of_scene), uniform(f"{name}/background", (*batch, 3), 0.05, 0.9, dtype)]

        def render(*tensors):
            return each(lambda *operands: [Scene(*operands[:7], **attributes).image(operands[7], **attributes)], batch, tensors)

        _, (ct,), gradients = by_torch(f"backward_{name}", render, operands)
        f.add(f"backward_{name}", "gaussian_splat_render_backward", [*operands, ct], gradients, SOURCE, **attributes)
        clipped = np.clip(ct, -0.3, 0.3)
        tensors = [torch.from_numpy(np.array(x)).requires_grad_() for x in operands]
        render(*tensors)[0].backward(torch.from_numpy(clipped))
        clipped_gradients = [t.grad.numpy() for t in tensors]
        clipped_gradients[5][..., 1:, :] = 0  # harmonics above band 0
        scales = operands[1]
        longest, shortest = scales.max(-1, keepdims=True), scales.min(-1, keepdims=True)
        g = clipped_gradients[1]
        g[(longest - shortest > math.log(3)) & (((scales == longest) & (g < 0)) | ((scales == shortest) & (g > 0)))] = 0
        f.add(f"backward_restrained_{name}", "gaussian_splat_render_backward", [*operands, ct], clipped_gradients, SOURCE,
              loss_grad_clip=0.3, sh_band=0, max_anisotropy=3.0, **attributes)
    return [f]
