# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client; scripts/make_sync.py makes the blocking one of it."""
