# The types of rlx.numpy.fft, which is rlx.fft.
from ..fft import *
