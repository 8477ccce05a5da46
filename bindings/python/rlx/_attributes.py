"""Settings as the C ABI takes them: text in the form of attributes of the textual IR."""

import re

import numpy as np


class Word(str):
    """Written without quotes."""


def text_of(value):
    """A value as an attribute of the textual IR."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub("[\0-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", escaped) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {text_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    return repr(float(value))
