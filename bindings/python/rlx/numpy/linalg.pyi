# The types of rlx.numpy.linalg, which is rlx.linalg.
from ..linalg import *
