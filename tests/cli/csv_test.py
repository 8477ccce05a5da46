#!/usr/bin/env python3
"""CSV files as the data of `rlx train`: cells without a value, text among numbers, and what is said where no option says
what to do with them. What a linear model learns without steps is its initial bias, so columns are counted by its params."""

import unittest

from program import ProgramTest, read_safetensors

TABLE = """age,city,income,y
20,rome,1.5,0
NA,oslo,2.5,1
22,rome,,0
23,"new york",4.5,1
24,oslo,5.5,0
25,rome,6.5,1
"""


class Csv(ProgramTest):
    def train(self, columns, *options, table=TABLE, test=None, steps=0):
        path = self.file("d.csv", table)
        words = ["train", "linear", "--steps", steps, "--overwrite", "--data", f"x={path}:{columns}", "--data", f"t={path}:y",
                 "--out", self.folder / "m", *options]  # fmt: skip
        if test is not None:
            other = self.file("test.csv", test)
            words += ["--test", f"x={other}:{columns}", "--test", f"t={other}:y"]
        return words

    def features(self, *words, **how):
        """(what the program says, how many numbers the model takes)."""
        text = self.succeeds(*self.train(*words, **how))
        _, tensors = read_safetensors(self.folder / "m/params.safetensors")
        return text, sorted(len(data) // 8 for data in tensors.values())[-1]  # weights f32[features, 2 classes]

    def test_a_cell_without_a_value_is_named_with_what_to_do(self):
        self.fails(1, r"row 3 of '.*d\.csv', column 'age', has no value: 'NA'.*--missing drop.*--missing mean", *self.train("age,income"))
        self.fails(1, r"row 4 of '.*d\.csv', column 'income', has no value: it is empty", *self.train("income"))

    def test_text_among_numbers_is_named_with_what_to_do(self):
        self.fails(1, r"row 2 of '.*d\.csv', column 'city', holds text, 'rome'.*--text-columns onehot", *self.train("city,y"))

    def test_rows_are_left_out_of_all_inputs_of_the_file(self):
        text, features = self.features("age,income", "--missing", "drop")
        self.assertEqual(features, 2)
        self.assertIn("4 examples to learn from", text)
        self.assertIn("2 of 6 rows have no value and are left out", text)

    def test_means_stand_for_missing_values(self):
        text, features = self.features("age,income", "--missing", "mean")
        self.assertEqual(features, 2)
        self.assertIn("6 examples to learn from", text)
        self.assertIn("x: age (1 without a value are 22.8), income (1 without a value are 4.1)", text)

    def test_a_column_for_each_text(self):
        text, features = self.features("city,income", "--missing", "mean", "--text-columns", "onehot")
        self.assertEqual(features, 4)
        self.assertIn("x: city=new york, city=oslo, city=rome, income (1 without a value are 4.1)", text)
        self.assertEqual(self.features("city", "--text-columns", "onehot")[1], 3)
        text, features = self.features("city,income", "--missing", "mean", "--text-columns", "drop")
        self.assertEqual(features, 1)
        self.assertIn("x: income", text)

    def test_columns_for_testing_are_read_as_those_for_training(self):
        test = "age,city,income,y\nNA,oslo,1,1\n30,oslo,2,0\n"
        self.features("age,city,income", "--missing", "mean", "--text-columns", "onehot", test=test)
        unknown = "age,city,income,y\n30,paris,2,0\n"
        self.fails(1, r"row 2 of '.*test\.csv', column 'city', holds 'paris', which is none of the texts",
                   *self.train("age,city,income", "--missing", "mean", "--text-columns", "onehot", test=unknown))  # fmt: skip

    def test_labels_are_the_same_numbers_in_training_and_testing(self):
        """Of two texts of which the file for testing has the second alone, it is the second class there too."""
        table = "a,y\n" + "".join(f"{i},{'no' if i < 4 else 'yes'}\n" for i in range(8))
        test = "a,y\n7,yes\n6,yes\n"
        text = self.succeeds(*self.train("a", "--learning-rate", 0.1, table=table, test=test, steps=400))
        self.assertRegex(text.splitlines()[-2], r"2 of 2|accuracy (1\.0|100)")
        self.assertIn("t: y, whose 2 texts are numbers: no is 0, yes is 1", text)
        self.fails(1, "holds 'maybe', which is none", *self.train("a", table=table, test="a,y\n7,maybe\n"))

    def test_a_text_among_the_numbers_of_one_column_makes_no_labels_of_them(self):
        table = "a,y\n1,0.5\n2,x7\n3,1.5\n"
        self.fails(1, r"row 3 of '.*d\.csv', column 'y', holds text, 'x7', among numbers; mend it.*--text-columns onehot",
                   *self.train("a", table=table))  # fmt: skip
        self.fails(1, r"row 3 of '.*d\.csv', column 'y', holds text, 'x7', among numbers", *self.train("y", table=table))
        self.assertIn("t: y, whose 3 texts are numbers: 0.5 is 0, 1.5 is 1, x7 is 2",
                      self.succeeds(*self.train("a", "--text-columns", "onehot", table=table)))  # fmt: skip

    def test_wrong_choices_and_columns(self):
        self.fails(1, "missing is 'guess'; it must be error, drop or mean", *self.train("age", "--missing", "guess"))
        self.fails(1, "text_columns is 'x'; it must be error, onehot or drop", *self.train("age", "--text-columns", "x"))
        self.fails(1, "--text-columns drop leaves none", *self.train("city,city", "--text-columns", "drop"))
        self.fails(1, "no column 'agee'", *self.train("agee"))
        self.fails(1, "has no value at all", *self.train("a", "--missing", "mean", table="a,y\nNA,1\n,0\n"))


if __name__ == "__main__":
    unittest.main()
