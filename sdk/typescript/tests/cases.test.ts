// SPDX-License-Identifier: Apache-2.0 - the cases that all SDKs pass.

import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import type { Case } from "./calls.js";
import { play } from "./playing.js";
import { CASES, Scripted } from "./scripting.js";

let scripted: Scripted;
before(async () => {
  scripted = await Scripted.start();
});
after(() => scripted.stop());

for (const file of readdirSync(`${CASES}scripted`).sort()) {
  const cases = JSON.parse(readFileSync(`${CASES}scripted/${file}`, "utf8")) as Case[];
  for (const one of cases) {
    test(`${file}: ${one.name}`, { timeout: 60_000 }, async () => {
      await scripted.begin(one.server);
      await play(one, scripted.url);
      await scripted.check();
    });
  }
}
