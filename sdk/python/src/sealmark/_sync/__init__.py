# SPDX-License-Identifier: Apache-2.0
"""The blocking client, made by scripts/make_sync.py of the asynchronous one: change that."""
