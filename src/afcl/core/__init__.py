# SPDX-License-Identifier: Apache-2.0
"""The algorithm: arrays in, arrays out; no file, clock, thread or log."""
