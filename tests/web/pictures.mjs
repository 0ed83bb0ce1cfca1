// SPDX-License-Identifier: Apache-2.0
// Pictures of the console's pages; scripts/console-pictures has made what they show.
import { show, signIn, url, withPage } from "./browser.mjs";

const folder = process.env.CONSOLE_FOLDER;
const size = { viewport: { width: 1100, height: 640 } };

await withPage(async (page) => {
  const shoot = (name) => page.screenshot({ path: `${folder}/console-${name}.png` });
  await signIn(page);
  await page.getByLabel("with stopped ones").check();
  await page.getByRole("link", { name: "hw2-ada" }).waitFor();
  await shoot("sandboxes");

  await page.goto(`${url}/sandboxes/${process.env.CONSOLE_SANDBOX}`);
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.locator(".xterm-rows", { hasText: "$" }).waitFor();
  await page.keyboard.type("python3 -m pytest -q\n");
  await page.locator(".xterm-rows", { hasText: "2 passed" }).waitFor();
  await shoot("sandbox");

  await show(page, "Usage");
  await page.locator(".uplot canvas").waitFor();
  await page.getByLabel("Group").selectOption("label");
  await page.getByRole("cell", { name: /student:ada/ }).waitFor();
  await shoot("usage");

  // the others are to look at while working on them
  if (!process.env.CONSOLE_ALL) return;
  await show(page, "Sandboxes");
  await page.getByRole("button", { name: "Create a sandbox" }).click();
  await shoot("create");
  await page.keyboard.press("Escape");
  await page.goto(`${url}/sandboxes/${process.env.CONSOLE_SANDBOX}`);
  for (const name of ["Command", "Processes", "Files", "Metrics"]) {
    await page.getByRole("tab", { name }).click();
    await page.waitForLoadState("networkidle");
    await page.screenshot({ path: `${folder}/console-tool-${name}.png`, fullPage: true });
  }
  for (const name of ["Images", "Keys", "Approvals", "Audit log"]) {
    await show(page, name);
    await page.waitForLoadState("networkidle");
    await shoot(name.split(" ")[0].toLowerCase());
  }
  await page.setViewportSize({ width: 375, height: 740 });
  await page.emulateMedia({ colorScheme: "dark" });
  for (const name of ["Sandboxes", "Usage", "Keys"]) {
    await show(page, name);
    await page.waitForLoadState("networkidle");
    await shoot(`phone-${name.toLowerCase()}`);
  }
  await page.goto(`${url}/sandboxes/${process.env.CONSOLE_SANDBOX}`);
  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.waitForLoadState("networkidle");
  await page.screenshot({ path: `${folder}/console-phone-sandbox.png`, fullPage: true });
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Password").waitFor();
  await shoot("signin");
}, size);
