"""What RLX says while it works goes to Python's logger "rlx", whose level is the library's: `logging.getLogger("rlx").setLevel("INFO")`
tells of each compile. Where RLX_LOG or RLX_VERBOSE is set, standard error has the messages, as in other languages."""

import atexit
import ctypes
import logging
import os

from ._native import check, lib

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)  # by the numbers of rlx_log_level
_SINK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)


class _Logger(logging.Logger):
    """A logger that tells the library which messages somebody wants, so that others are not written at all."""

    def setLevel(self, level):
        super().setLevel(level)
        least = self.getEffectiveLevel()
        check(lib.rlx_log_set_level, max((i for i, level in enumerate(_LEVELS) if level >= least), default=-1))


def _logger():
    logger = logging.getLogger("rlx")
    if type(logger) is logging.Logger:  # another class is somebody's own; then the level of RLX_LOG stays
        logger.__class__ = _Logger
        if logger.level != logging.NOTSET:  # set before RLX was imported
            logger.setLevel(logger.level)
    return logger


_log = _logger()


@_SINK
def _sink(_, level, message):
    _log.log(_LEVELS[level], "%s", message.decode())


if not os.environ.get("RLX_LOG") and os.environ.get("RLX_VERBOSE", "0") in ("", "0"):
    check(lib.rlx_log_set_sink, _sink, None)
    atexit.register(check, lib.rlx_log_set_sink, None, None)  # threads of the library outlive Python's
