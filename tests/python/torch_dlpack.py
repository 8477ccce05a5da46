"""DLPack between rlx and PyTorch: zero copy both ways, in every dtype of both. By hand, where there is PyTorch:

    PYTHONPATH=bindings/python RLX_LIBRARY=build/release/lib/librlx_c.so python tests/python/torch_dlpack.py
"""

import torch

import rlx
import rlx.numpy as rnp
from rlx import _graph

for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8,
              torch.bool, torch.complex64, torch.complex128):
    t = torch.arange(6).reshape(2, 3).to(dtype)
    assert _graph.address(rnp.from_dlpack(t).numpy()) == t.data_ptr(), dtype
    for given in (t, t.T.contiguous().T):  # the second one's strides are not those of an array in row-major order
        y = rlx.jit(lambda x: rnp.where(True, x, x))(given)
        back = torch.from_dlpack(y)
        assert back.dtype == dtype and torch.equal(back, t) and back.data_ptr() == _graph.address(y.numpy()), dtype
print("zero copy both ways in 12 dtypes")
