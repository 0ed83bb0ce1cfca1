// SPDX-License-Identifier: Apache-2.0 - the version of this package.

export const VERSION = "0.1.0";
