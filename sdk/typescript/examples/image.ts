// SPDX-License-Identifier: Apache-2.0 - builds the image of a course and shows what it has.

import { Runtime } from "sealmark";

const runtime = new Runtime();
const image = await runtime.images.build(
  {
    name: "cs101-grader",
    recipe: {
      base: "default",
      apt: ["default-jdk-headless"],
      pip: ["pytest", "hypothesis"],
    },
  },
  { onLog: (line) => console.log("log:", line.text) },
);
console.log(`cs101-grader@${image.version} is ${image.state}`);
{
  await using box = await runtime.sandboxes.create({ image: "cs101-grader", memoryMiB: 2048 });
  console.log((await box.exec("java -version 2>&1", { check: true })).stdout);
  console.log((await box.exec("python3 -c 'import hypothesis; print(hypothesis.__name__)'")).stdout);
}
