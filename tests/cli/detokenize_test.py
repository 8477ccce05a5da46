#!/usr/bin/env python3
"""`rlx detokenize`: ids to text, with what `rlx tokenize` prints as its input, and lines that are no ids."""

import json
import unittest

from program import ProgramTest

VOCABULARY = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\n!\ncafé\n"


class Detokenize(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.file("vocab.txt", VOCABULARY)
        self.file("tokenizer_config.json", '{"strip_accents": false}')

    def detokenize(self, *arguments, **how):
        return self.succeeds("detokenize", "--model", self.model, *arguments, **how)

    def test_what_tokenize_prints_becomes_the_text_again(self):
        lines = "hello worlds!\ncafé\n\n! hello\n"
        ids = self.succeeds("tokenize", "--model", self.model, "-", stdin=lines)
        self.assertEqual(ids, "[2,4,5,6,7,3]\n[2,8,3]\n[2,3]\n[2,7,4,3]\n")
        self.assertEqual(self.detokenize("-", stdin=ids), lines)

    def test_json_keeps_each_text_on_a_line(self):
        self.assertEqual(self.detokenize("--json", "[4, 5]", "[8]"), '"hello world"\n"café"\n')
        self.model = self.file("odd.txt", '[PAD]\n[UNK]\n[CLS]\n[SEP]\n"\n\\\n')
        self.assertEqual([json.loads(line) for line in self.detokenize("--json", "[4, 5]").splitlines()], ['" \\'])

    def test_special_tokens_are_kept_only_if_asked_for(self):
        self.assertEqual(self.detokenize("[2, 4, 3]"), "hello\n")
        self.assertEqual(self.detokenize("--special", "[2, 4, 3]"), "[CLS] hello [SEP]\n")

    def test_each_argument_is_a_line_and_spaces_do_not_matter(self):
        self.assertEqual(self.detokenize("[4]", " [ 4 ,5 ] ", "[]"), "hello\nhello world\n\n")

    def test_an_id_that_is_none_is_left_out(self):
        self.assertEqual(self.detokenize("[4, 99, -1, 5]"), "hello world\n")

    def test_lines_that_are_no_array_of_ids_say_where(self):
        for line, at in (("hello", 0), ("[4", 2), ("[4 5]", 3), ("[4,]", 3), ("[4] 5", 4), ('["4"]', 1), ("[4.5]", 2), ("[99999999999]", 1)):
            with self.subTest(line):
                self.fails(1, f"is no JSON array of ids, at byte {at}", "detokenize", "--model", self.model, line)


if __name__ == "__main__":
    unittest.main()
