# SPDX-License-Identifier: Apache-2.0
"""The paper's equations, and its published code's: presets `paper` and `matlab`."""
