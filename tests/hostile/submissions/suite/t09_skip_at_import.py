import unittest

raise unittest.SkipTest("not today")
