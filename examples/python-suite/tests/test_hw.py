"""Tests of homework 1: numbers, words and a bank account."""
import unittest

from hw import Account, add, count_words, primes


class TestAdd(unittest.TestCase):
    def test_small(self):
        self.assertEqual(add(2, 3), 5)

    def test_zero(self):
        self.assertEqual(add(0, 0), 0)

    def test_negative(self):
        self.assertEqual(add(-2, -3), -5)

    def test_fractions(self):
        self.assertAlmostEqual(add(0.1, 0.2), 0.3)


class TestPrimes(unittest.TestCase):
    def test_first(self):
        self.assertEqual(list(primes(10)), [2, 3, 5, 7])

    def test_none(self):
        self.assertEqual(list(primes(1)), [])

    def test_many(self):
        self.assertEqual(sum(primes(2000)), 277050)


class TestWords(unittest.TestCase):
    def test_counts(self):
        self.assertEqual(count_words("a b a"), {"a": 2, "b": 1})

    def test_case(self):
        self.assertEqual(count_words("The the"), {"the": 2})


class TestAccount(unittest.TestCase):
    def setUp(self):
        self.account = Account(100)

    def test_deposit(self):
        self.account.deposit(50)
        self.assertEqual(self.account.balance, 150)

    def test_overdraw(self):
        with self.assertRaises(ValueError):
            self.account.withdraw(101)
        self.assertEqual(self.account.balance, 100)

    def test_negative_deposit(self):
        with self.assertRaises(ValueError):
            self.account.deposit(-1)
