# SPDX-License-Identifier: Apache-2.0
"""The benchmark: data set x method x participation x split x seed, from a TOML spec.

A run's path is its identity, raw outputs are stored, and every score is derived from
them later: a new measure needs no new run. Who evaluates is neither data nor method.
"""
