"""PyTorch modules as functions of RLX. torch.export traces a module into a graph of ATen's operators, each of which has a function
in a file here, by family; what has none is computed by others as PyTorch says it (`decompositions`), or else refused by its name.
PyTorch is imported when it is asked for, and not before."""

from . import elementwise, fourier, indexing, linear_algebra, norms_and_losses, products, reductions, shapes, special, windows  # noqa: F401
from .module import TorchModule, from_torch
from .table import OPERATORS, array_of, decompositions, mapped, name_of

__all__ = ["OPERATORS", "TorchModule", "array_of", "decompositions", "from_torch", "mapped", "name_of"]
