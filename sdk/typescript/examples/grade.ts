// SPDX-License-Identifier: Apache-2.0 - grades one submission: node grade.js STUDENT_FOLDER TESTS_FOLDER

import { NotFoundError, Runtime, Sandbox } from "sealmark";

/** Prints how the tests went; the sandbox that it used is gone by then. */
async function grade(student: string, tests: string): Promise<string> {
  await using box = await Sandbox.create({
    vcpu: 1,
    memoryMiB: 2048,
    network: { internet: false },
    timeoutSeconds: 300,
    onLeaseEnd: "stop",
  });
  await box.files.upload(student, "/workspace/student");
  await box.files.upload(tests, "/workspace/tests");
  const result = await box.exec(["python3", "-m", "pytest", "-q", "/workspace/tests"], {
    cwd: "/workspace/student",
    env: { PYTHONPATH: "/workspace/student" },
    timeoutMs: 60_000,
  });
  console.log(`exit code ${result.exitCode}, timed out: ${result.timedOut}`);
  console.log(result.stdout);
  return box.id;
}

const [student, tests] = process.argv.slice(2);
if (!student || !tests) throw new Error("usage: node grade.js STUDENT_FOLDER TESTS_FOLDER");
const used = await grade(student, tests);
try {
  await new Runtime().sandboxes.get(used);
  console.log("still there");
} catch (error) {
  if (!(error instanceof NotFoundError)) throw error;
  console.log("gone");
}
