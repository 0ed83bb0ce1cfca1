// SPDX-License-Identifier: Apache-2.0 - plays a case: its steps, each with what must come of it.

import assert from "node:assert/strict";
import { inspect } from "node:util";

import { SealmarkError } from "../src/index.js";
import { type Case, Client, holds, shownError } from "./calls.js";

export async function play(one: Case, url: string, key = "test-key"): Promise<void> {
  const client = new Client(url, one.settings, key);
  for (const step of one.steps) {
    let found: unknown;
    try {
      found = await client.call(step);
    } catch (error) {
      if (!(error instanceof SealmarkError) || !step.error) throw error;
      const shown = shownError(error);
      assert.ok(holds(step.error, shown), inspect({ step, shown }, { depth: 6 }));
      assert.ok(!inspect(error, { depth: 9 }).includes(key), "an error shows the key");
      continue;
    }
    assert.ok(!step.error, inspect({ step, found }, { depth: 6 }));
    assert.ok(!("expect" in step) || holds(step.expect, found), inspect({ step, found }, { depth: 6 }));
  }
}
