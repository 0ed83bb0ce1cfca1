import unittest


class TestAdd(unittest.TestCase):
    def test_large(self):
        pass

    test_small = test_text = test_large
