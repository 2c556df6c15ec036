# SPDX-License-Identifier: Apache-2.0
"""Running a method: coordinator, transports, schedules, codec, journal."""
