// SPDX-License-Identifier: Apache-2.0
// A browser for the scenes: what its console complains about, and what the policy refuses, fails.
import { createRequire } from "node:module";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

export const url = process.env.CONSOLE_URL;
export const password = process.env.CONSOLE_PASSWORD;

/** `expected` are statuses that a scene provokes: the browser writes each into its console. */
export async function withPage(scene, options = {}, expected = []) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--headless", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  const complaints = [];
  try {
    const context = await browser.newContext({
      viewport: { width: 1200, height: 800 },
      permissions: ["clipboard-read", "clipboard-write"],
      ...options,
    });
    context.setDefaultTimeout(20_000);
    const page = await context.newPage();
    page.on("console", (message) => {
      const text = message.text();
      const known = expected.some((status) => text.includes(`status of ${status} `));
      if (["error", "warning"].includes(message.type()) && !known) complaints.push(text);
    });
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (event) =>
        console.error(`refused by the policy: ${event.violatedDirective} ${event.blockedURI}`),
      );
    });
    page.on("dialog", (dialog) => void dialog.accept());
    try {
      await scene(page);
    } catch (why) {
      const seen = await page.locator("body").innerText().catch(() => "no page");
      throw new Error(`${why}\n-- at ${page.url()} --\n${seen}\n${complaints.join("\n")}`);
    }
    if (complaints.length) throw new Error(`the browser complains:\n${complaints.join("\n")}`);
  } finally {
    await browser.close();
  }
}

export async function signIn(page, path = "/") {
  await page.goto(url + path);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation").waitFor();
}

export function check(condition, message) {
  if (!condition) throw new Error(message);
}

/** Shows a page of the console by its link. */
export async function show(page, name) {
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
}
