// SPDX-License-Identifier: Apache-2.0 - a sandbox for each of many students at once, beyond the limit.

import { Runtime } from "sealmark";

const runtime = new Runtime({ waitForCapacityMs: 600_000 });

async function student(number: number): Promise<string> {
  await using box = await runtime.sandboxes.create({
    vcpu: 1,
    memoryMiB: 256,
    network: { internet: false },
    timeoutSeconds: 300,
    onLeaseEnd: "stop",
    labels: { course: "cs101", assignment: "hw3", student: `s${number}` },
  });
  const seen = await runtime.sandboxes.list({ labels: { course: "cs101", student: `s${number}` } });
  const ids = (await seen.toList()).map((other) => other.id);
  if (ids.join() !== box.id) throw new Error(`student ${number} has ${ids.join()}`);
  return (await box.exec(["echo", `student ${number}`], { check: true })).stdout;
}

const students = Number(process.argv[2] ?? 4);
const lines = await Promise.all(Array.from({ length: students }, (_, number) => student(number)));
process.stdout.write(lines.join(""));
const left = await runtime.sandboxes.list({ labels: { course: "cs101", assignment: "hw3" } });
console.log(`${(await left.toList()).length} left`);
