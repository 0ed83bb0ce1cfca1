// SPDX-License-Identifier: Apache-2.0 - the cases that all SDKs pass.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { SealmarkError } from "../src/index.js";
import { type Case, Client, holds, shownError } from "./calls.js";
import { CASES, Scripted } from "./scripting.js";

let scripted: Scripted;
before(async () => {
  scripted = await Scripted.start();
});
after(() => scripted.stop());

async function play(one: Case): Promise<void> {
  await scripted.begin(one.server);
  const client = new Client(scripted.url, one.settings);
  for (const step of one.steps) {
    let found: unknown;
    try {
      found = await client.call(step);
    } catch (error) {
      if (!(error instanceof SealmarkError) || !step.error) throw error;
      const shown = shownError(error);
      assert.ok(holds(step.error, shown), inspect({ step, shown }, { depth: 6 }));
      assert.ok(!inspect(error, { depth: 9 }).includes("test-key"), "an error shows the key");
      continue;
    }
    assert.ok(!step.error, inspect({ step, found }, { depth: 6 }));
    assert.ok(!("expect" in step) || holds(step.expect, found), inspect({ step, found }, { depth: 6 }));
  }
  await scripted.check();
}

for (const file of readdirSync(`${CASES}scripted`).sort()) {
  const cases = JSON.parse(readFileSync(`${CASES}scripted/${file}`, "utf8")) as Case[];
  for (const one of cases) {
    test(`${file}: ${one.name}`, { timeout: 60_000 }, () => play(one));
  }
}
