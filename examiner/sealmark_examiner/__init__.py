# SPDX-License-Identifier: Apache-2.0 - runs the teacher's tests away from the student's code.
"""See README.md in this folder for the processes and who may do what."""
