"""What documents show is what the package does."""

import os
import unittest

import examples


class Documents(unittest.TestCase):
    def setUp(self):
        folder = os.getcwd()
        os.chdir(examples.ROOT)
        self.addCleanup(os.chdir, folder)

    def test_examples_of_pages_have_the_results_that_they_show(self):
        for page in ("docs/reference/python.md", "docs/reference/fleet.md", "python/README.md"):
            with self.subTest(page):
                self.assertEqual(examples.of_page(page), [])

    def test_the_notebook_has_the_outputs_of_its_cells(self):
        self.assertEqual(examples.of_notebook("docs/guide/one-stalled-call.ipynb"), [])

    def test_an_example_with_another_result_is_found(self):
        differences = []
        block = ">>> 1 + 1\n3\n>>> 2 + 2\n4\n>>> int('x')\nTraceback (most recent call last):\n  ...\n"
        examples.run_block(block + "ValueError: y\n", {}, differences)
        self.assertEqual([source for source, _, _ in differences], ["1 + 1\n", "int('x')\n"])


if __name__ == "__main__":
    unittest.main()
