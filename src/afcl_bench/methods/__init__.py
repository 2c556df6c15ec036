# SPDX-License-Identifier: Apache-2.0
"""The rivals: methods of other papers, behind the protocol of `afcl`."""
