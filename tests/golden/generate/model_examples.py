"""What examples/models/ is held to: models of `transformers`, torchvision and torch.nn with random weights, and what they make in f64.

usage: model_examples.py                   writes small ones, tests/golden/model_examples/NAME/
       model_examples.py --check PROGRAMS  makes larger ones with another seed, runs the programs of that folder (build/release/examples/models),
                                           prints how far each is from PyTorch, and fails beyond 1e-5 of the largest output, or of 1 if that is less
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import torchvision
import transformers
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

import recorded
from model_blocks import DoubleConv, Down, Up, noise, randomized

TOLERANCE = 1e-5


class UNet(nn.Module):
    """github.com/milesial/Pytorch-UNet with other widths and depths."""

    def __init__(self, channels, classes, width, depth, resized):
        super().__init__()
        self.depth, shrink = depth, 2 if resized else 1
        self.inc = DoubleConv(channels, width)
        for i in range(depth):
            last = i == depth - 1
            setattr(self, f"down{i + 1}", Down(width << i, (width << i + 1) // (shrink if last else 1)))
        for i in range(depth):
            wide = width << depth - i
            setattr(self, f"up{i + 1}", Up(wide, wide // 2 // (shrink if i < depth - 1 else 1), resized))
        self.outc = nn.ModuleDict({"conv": nn.Conv2d(width, classes, 1)})

    def forward(self, x):
        skips = [self.inc(x)]
        for i in range(self.depth): skips.append(getattr(self, f"down{i + 1}")(skips[-1]))
        x = skips.pop()
        for i in range(self.depth): x = getattr(self, f"up{i + 1}")(x, skips.pop())
        return self.outc["conv"](x)


def resnet(block, layers, width, classes, **given):
    """torchvision's ResNet, whose first width is 64, as wide as asked."""
    net = ResNet(block, layers, num_classes=classes, **given)
    if width == 64: return net
    net.inplanes = width
    net.conv1, net.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
    for i in range(4):
        setattr(net, f"layer{i + 1}", net._make_layer(block, width << i, layers[i], stride=1 if i == 0 else 2))
    net.fc = nn.Linear((width << 3) * block.expansion, classes)
    return net


def bert(hidden, heads, inner, layers, vocabulary):
    config = transformers.BertConfig(hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner, num_hidden_layers=layers,
                                     vocab_size=vocabulary, max_position_embeddings=64)  # fmt: skip
    return transformers.BertModel(config, add_pooling_layer=False)


def llama(hidden, heads, kv_heads, inner, layers, vocabulary, tied):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv_heads, intermediate_size=inner, num_hidden_layers=layers,
        vocab_size=vocabulary, tie_word_embeddings=tied, pad_token_id=None, bos_token_id=None, eos_token_id=None))  # fmt: skip


def vit(image, patch, hidden, heads, inner, layers, classes):
    return torchvision.models.VisionTransformer(image, patch, layers, heads, hidden, inner, num_classes=classes)


def texts(vocabulary, *lengths):
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, n in enumerate(lengths): ids[row, :n] = torch.randint(1, vocabulary, (n,), generator=torch.Generator().manual_seed(n))
    return ids


def of_bert(model, ids): return model(ids, attention_mask=(ids != 0).long()).last_hidden_state
def of_llama(model, ids): return model(ids[None].long()).logits[0]
def of_images(model, images): return model(images)


def ids_of(vocabulary, n): return texts(vocabulary, n)[0].int()


# NAME: the program, its arguments behind the files, the model, its input, how it is called.
def small():
    return {
        "bert": ("bert", ["2"], bert(16, 2, 22, 2, 31), texts(31, 9, 4), of_bert),
        "vit": ("vit", ["3"], vit(12, 4, 12, 3, 20, 2, 5), noise(2, 3, 12, 12, seed=2), of_images),
        "resnet": ("resnet", [], resnet(BasicBlock, [1, 2, 1, 1], 4, 5), noise(2, 3, 37, 41, seed=3), of_images),
        "resnet_bottleneck": ("resnet", [], resnet(Bottleneck, [1, 1, 1, 1], 4, 5), noise(2, 3, 33, 33, seed=4), of_images),
        "unet": ("unet", [], UNet(3, 2, 4, 2, False), noise(2, 3, 13, 11, seed=5), of_images),
        "unet_resized": ("unet", [], UNet(1, 2, 4, 2, True), noise(1, 1, 10, 15, seed=6), of_images),
        "llama": ("llama", ["6"], llama(24, 6, 2, 17, 2, 29, False), ids_of(29, 13), of_llama),
        "llama_tied": ("llama", ["2"], llama(16, 2, 1, 22, 1, 29, True), ids_of(29, 1), of_llama),
    }  # fmt: skip


def large():
    return {
        "bert": ("bert", [], bert(256, 4, 1024, 6, 3000), texts(3000, 60, 17, 1), of_bert),
        "vit": ("vit", [], vit(96, 16, 192, 3, 768, 6, 1000), noise(2, 3, 96, 96, seed=12), of_images),
        "resnet18": ("resnet", [], torchvision.models.resnet18(), noise(1, 3, 224, 224, seed=13), of_images),
        "resnet50": ("resnet", [], torchvision.models.resnet50(), noise(1, 3, 128, 128, seed=14), of_images),
        "resnext50": ("resnet", [], torchvision.models.resnext50_32x4d(), noise(1, 3, 96, 96, seed=15), of_images),
        "unet": ("unet", [], UNet(3, 4, 16, 4, False), noise(1, 3, 97, 113, seed=16), of_images),
        "unet_resized": ("unet", [], UNet(3, 4, 16, 4, True), noise(1, 3, 64, 90, seed=17), of_images),
        "llama": ("llama", ["8"], llama(256, 8, 2, 688, 6, 2000, False), ids_of(2000, 50), of_llama),
        "llama_tied": ("llama", ["8"], llama(256, 8, 8, 688, 4, 2000, True), ids_of(2000, 41), of_llama),
    }  # fmt: skip


def write(folder, seed, model, given, call):
    """The files that a program reads, and what it should make."""
    folder.mkdir(parents=True, exist_ok=True)
    randomized(model, seed)
    with torch.no_grad(): made = call(model, given)
    is_tied = getattr(getattr(model, "config", None), "tie_word_embeddings", False)
    weights = {name: value.float().contiguous() for name, value in model.state_dict().items()
               if value.is_floating_point() and not (is_tied and name == "lm_head.weight")}  # fmt: skip
    safetensors.torch.save_file(weights, folder / "weights.safetensors")
    given = given.numpy()
    np.save(folder / "input.npy", given.astype(np.float32) if given.dtype.kind == "f" else given)
    made = made.numpy()
    np.save(folder / "output.npy", made.astype(np.float32))
    return made


def check(programs):
    worst_of_all = 0.0
    for seed, (name, (program, arguments, model, given, call)) in enumerate(large().items()):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            wanted = write(folder, 900 + seed, model, given, call)
            with torch.no_grad(): in_f32 = call(model.float(), given.float() if given.is_floating_point() else given).numpy()
            out = folder / "made.npy"
            subprocess.run([programs / program, folder / "weights.safetensors", folder / "input.npy", out, *arguments], check=True)
            made = np.load(out)
            assert made.shape == wanted.shape, f"{name}: {made.shape}, not {wanted.shape}"
            size = max(np.abs(wanted).max(), 1.0)
            error, theirs = np.abs(made - wanted).max() / size, np.abs(in_f32 - wanted).max() / size
            worst_of_all = max(worst_of_all, error)
            print(f"{name:14} {error:.1e} of the largest output, {size:.3g}, from PyTorch in f64; PyTorch in f32 is {theirs:.1e}")
    if not worst_of_all <= TOLERANCE: sys.exit(f"further from PyTorch than {TOLERANCE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=pathlib.Path, metavar="PROGRAMS")
    options = parser.parse_args()
    if options.check: return check(options.check)
    out, arguments = recorded.folder("model_examples"), {}
    for seed, (name, (program, given_arguments, model, given, call)) in enumerate(small().items()):
        write(out / name, 800 + seed, model, given, call)
        arguments[name] = [program, *given_arguments]
    recorded.write_versions(out, "model_examples.py", ["numpy", "safetensors", "torch", "torchvision", "transformers"], arguments=arguments)


if __name__ == "__main__":
    main()
