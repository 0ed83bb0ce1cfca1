// SPDX-License-Identifier: Apache-2.0 - the cases of a running server, which the environment names.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import type { Case } from "../tests/calls.js";
import { play } from "../tests/playing.js";
import { CASES } from "../tests/scripting.js";

const { SEALMARK_API_URL: url, SEALMARK_API_KEY: key } = process.env;
assert.ok(url && key, "SEALMARK_API_URL and SEALMARK_API_KEY name the server");

for (const file of readdirSync(`${CASES}real`).sort()) {
  const text = readFileSync(`${CASES}real/${file}`, "utf8").replaceAll("$unique", randomUUID());
  for (const one of JSON.parse(text) as Case[]) {
    test(`${file}: ${one.name}`, { timeout: 120_000 }, () => play(one, url, key));
  }
}
