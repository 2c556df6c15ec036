# SPDX-License-Identifier: Apache-2.0
"""The network, on Flower: its processes, keys and certificates, and both apps."""
