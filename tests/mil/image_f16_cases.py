#!/usr/bin/env python3
"""Writes image_f16_cases.json: crop_resize, resample, affine and bilinear resizing in programs of f16, by NumPy and PyTorch.

    image_f16_cases.py        # in an environment with numpy and torch (2.0 and later)

The assumption: an operation of f16 reads numbers of f16 (an image, boxes, coordinates, a pad value, each rounded to f16 where the
program's types say so), computes without rounding in between, and rounds its result to f16 once. So the numbers here are those
of f64 on rounded operands, and what is left to the implementation is half a unit in the last place of f16. crop_resize is written out
below from coremltools' description of the op (iOS15 to iOS17, image_resizing.py); the others are PyTorch's grid_sample,
affine_grid and interpolate in f64.

The first case is coremltools' own, TestCropResize of iOS16 and iOS17, whose expected outputs have 7.899 where the formula gives 7.9: in f32
it is 7.8999996, of which the test keeps three decimals, and in f16 7.8984375.
"""

import json
import pathlib

import numpy as np
import torch

SAMPLING = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS", "UNALIGN_CORNERS")
BOXES = ("CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST", "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST")


def half(x):
    return np.asarray(x, np.float16).astype(np.float64)


def places(mode, start, end, n):
    span = end - start
    k = np.arange(n, dtype=np.float64)
    if mode == "STRICT_ALIGN_CORNERS":
        return np.full(1, start) if n == 1 else start + k * span / (n - 1)
    if mode == "ALIGN_CORNERS":
        return np.full(1, start + span / 2) if n == 1 else start + k * span / (n - 1)
    if mode == "DEFAULT":
        return start + np.clip(k * (span + 1) / n, 0, span)
    if mode == "OFFSET_CORNERS":
        return start + (k + 0.5) * max(span, 1) / n
    return start + np.clip((k + 0.5) * (span + 1) / n - 0.5, 0, span)


def crop_resize(x, boxes, which, h, w, normalized, order, sampling, scale, pad):
    out = np.empty((len(boxes), x.shape[1], h, w))
    rows, columns = x.shape[2:]
    for n, box in enumerate(boxes):
        b = box[[1, 0, 3, 2]] if "WIDTH_FIRST" in order else box
        if order.startswith("CENTER"):
            b = np.array([b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2])
        b = b * scale
        if normalized:
            b = b * np.array([rows - 1, columns - 1, rows - 1, columns - 1])
        for i, y in enumerate(places(sampling, b[0], b[2], h)):
            for j, z in enumerate(places(sampling, b[1], b[3], w)):
                if not (0 <= y <= rows - 1 and 0 <= z <= columns - 1):
                    out[n, :, i, j] = pad
                    continue
                top, left = int(y), int(z)
                bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
                v, u = y - top, z - left
                image = x[which[n]]
                upper = image[:, top, left] * (1 - u) + image[:, top, right] * u
                lower = image[:, bottom, left] * (1 - u) + image[:, bottom, right] * u
                out[n, :, i, j] = upper * (1 - v) + lower * v
    return out


def listed(x):
    """Nine digits tell any f32, and all of an f16."""
    x = np.asarray(x, np.float64)
    return {"shape": list(x.shape), "values": [float(f"{v:.9g}") for v in x.ravel()]}


def main():
    random = np.random.default_rng(20240229)
    cases, images = [], []

    def add(op, opset, arguments, x, expected, **tensors):
        if listed(x) not in images:
            images.append(listed(x))
        cases.append({"op": op, "opset": opset, "arguments": arguments, "x": images.index(listed(x)),
                      "tensors": {name: listed(t) for name, t in tensors.items()}, "expected": listed(expected)})  # fmt: skip

    def add_crops(x, boxes, which, h, w, normalized, order, sampling, scale, pad):
        expected = crop_resize(half(x), half(boxes), which, h, w, normalized, order, sampling, float(half(scale)), float(half(pad)))
        arguments = {"target_height": h, "target_width": w, "normalized_coordinates": normalized, "box_coordinate_mode": order,
                     "sampling_mode": sampling, "spatial_scale": scale, "pad_value": pad}  # fmt: skip
        add("crop_resize", 7, arguments, half(x), expected, boxes=half(boxes), box_indices=which)
        roi = np.concatenate([np.asarray(which, np.float64)[:, None], half(boxes)], 1)[:, None, :, None, None]
        add("crop_resize", 6, arguments, half(x), expected[:, None], roi=roi)

    own = np.arange(1, 17).reshape(1, 1, 4, 4)
    own_boxes = np.array([[0.1, 0.3, 1.3, 1.0], [0.5, 1.8, 1.0, 0.3], [0.0, 0.4, 0.6, 0.7]])
    for pad in (0, 10, 7.9):
        add_crops(own, own_boxes, [0, 0, 0], 2, 2, True, BOXES[0], "ALIGN_CORNERS", 1, pad)
    x = random.normal(size=(2, 3, 7, 9)) * 5
    for sampling in SAMPLING:
        for k, order in enumerate(BOXES):
            normalized = bool(k % 2)
            low = random.uniform(0, 0.5, (3, 2))
            size = random.uniform(0.1, 0.45, (3, 2))
            boxes = np.concatenate([low + size / 2, size] if order.startswith("CENTER") else [low, low + size], 1)
            if not normalized:
                boxes = boxes * np.array([6, 8, 6, 8])[[1, 0, 3, 2] if "WIDTH_FIRST" in order else [0, 1, 2, 3]]
            add_crops(x, boxes, [1, 0, 1], 3, 4, normalized, order, sampling, 1 if k < 2 else 0.75, 7.9)

    image = torch.from_numpy(half(x))
    for align in (False, True):
        for padding, theirs in (("constant", "zeros"), ("border", "border"), ("reflection", "reflection")):
            grid = half(random.uniform(-1.2, 1.2, (2, 4, 5, 2)))
            y = torch.nn.functional.grid_sample(image, torch.from_numpy(grid), "bilinear", theirs, align)
            arguments = {"sampling_mode": "bilinear", "padding_mode": padding, "padding_value": 0.0,
                         "coordinates_mode": "normalized_minus_one_to_one", "align_corners": align}  # fmt: skip
            add("resample", 5, arguments, half(x), y.numpy(), coordinates=grid)
        matrix = half(random.uniform(-1, 1, (2, 6)))
        grid = torch.nn.functional.affine_grid(torch.from_numpy(matrix.reshape(2, 2, 3)), (2, 3, 4, 5), align)
        y = torch.nn.functional.grid_sample(image, grid, "bilinear", "zeros", align)
        arguments = {"output_height": 4, "output_width": 5, "sampling_mode": "bilinear", "padding_mode": "constant", "padding_value": 0.0,
                     "coordinates_mode": "normalized_minus_one_to_one", "align_corners": align}  # fmt: skip
        add("affine", 5, arguments, half(x), y.numpy(), transform_matrix=matrix)
    for sampling, align in (("STRICT_ALIGN_CORNERS", True), ("UNALIGN_CORNERS", False)):
        y = torch.nn.functional.interpolate(image, size=(5, 13), mode="bilinear", align_corners=align)
        arguments = {"target_size_height": 5, "target_size_width": 13, "sampling_mode": sampling}
        add("resize_bilinear", 5, arguments, half(x), y.numpy())
    for align in (False, True):
        y = torch.nn.functional.interpolate(image, scale_factor=(2, 3), mode="bilinear", align_corners=align)
        add("upsample_bilinear", 5, {"scale_factor_height": 2, "scale_factor_width": 3, "align_corners": align}, half(x), y.numpy())
    file = pathlib.Path(__file__).with_suffix(".json")
    versions = f"numpy {np.__version__}, torch {torch.__version__}"
    file.write_text(json.dumps({"made_by": versions, "images": images, "cases": cases}, separators=(",", ":")) + "\n")
    print(len(cases), "cases,", file.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
