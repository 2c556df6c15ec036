# SPDX-License-Identifier: Apache-2.0
"""The commands that `afcl bench` and `afcl plot` hand over to."""
