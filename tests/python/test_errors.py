"""Errors about files that hold any bytes are exceptions with a text, and nothing in them steers a terminal."""

import os

import pytest

import rlx
from rlx import _graph, _native


@pytest.mark.parametrize("bytes_in_it", [b"\xff\xc3", b"\x1b]0;owned\x07", b"\xc2\x9b31m\x7f", "\U0001f642".encode() * 9 + b"\xf0\x9f"])
def test_messages_are_text_whatever_the_file_holds(tmp_path, bytes_in_it):
    path = tmp_path / "bad.rlx"
    path.write_bytes(b'rlx 1\ngraph @g {\n  %0 = ' + bytes_in_it)
    with pytest.raises(_native.Error) as raised:
        _graph.Graph.load(path)
    assert "bad.rlx" in str(raised.value)
    assert not [c for c in str(raised.value) if (ord(c) < 0x20 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0]


def test_the_text_of_a_graph_with_such_names_is_text(tmp_path):
    path = tmp_path / "odd.rlx"
    path.write_bytes(b'rlx 1\ngraph @g {\n  %0 = input() @"\xff\x1b" : f32[2]\n  return %0 @"y"\n}\n')
    assert '"\\xff\\x1b"' in _graph.Graph.load(path).text()


def test_paths_are_taken_as_python_takes_them(tmp_path):
    """Text with bytes that are no UTF-8 (surrogates, as os.listdir gives them), bytes, and none with a NUL, at which C would cut it."""
    odd = tmp_path / os.fsdecode(b"odd\xff.rlx")
    for read in (rlx.Graph.load, rlx.models.Tokenizer, rlx.llm.load, rlx.coreml.load, rlx.GGUFFile, rlx.load_plugin, rlx.load_compiled, rlx.ExecutionProfile):
        for path in (odd, os.fsencode(odd)):
            with pytest.raises((rlx.Error, TypeError)) as failure:
                read(path)
            assert "odd" in str(failure.value) or isinstance(failure.value, TypeError), read
            str(failure.value).encode()  # printable
        with pytest.raises((ValueError, FileNotFoundError)):
            read("cut\0here")
