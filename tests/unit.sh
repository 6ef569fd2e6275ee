#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs one Criterion program and passes its TAP on; a program that finds no test to run is a failure.
exec "$1" --tap=/dev/stdout --jobs=1 2>&1
