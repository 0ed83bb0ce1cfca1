// SPDX-License-Identifier: Apache-2.0
// What people do with the console, scene by scene: node scenes.mjs NAME; tests/web/test_console.py
// starts servers, runs these, and looks at what became of them.
import { check, password, show, signIn, url, withPage } from "./browser.mjs";

const pages = ["Sandboxes", "Images", "Keys", "Approvals", "Usage", "Audit log"];

/** The owner's link, a wrong password, the right one, the end of the session. */
async function owner(page) {
  await page.goto(process.env.CONSOLE_LINK);
  await page.getByLabel("Password", { exact: true }).fill(password);
  const again = page.getByLabel(/again/i);
  if (await again.count()) await again.fill(password);
  await page.getByRole("button", { name: "Set password" }).click();
  await page.getByRole("navigation").waitFor();
  await page.getByText("No sandbox is like that").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Password").fill("not the password");
  await page.keyboard.press("Enter");
  await page.getByText("That is not the password.").waitFor();
  await page.getByText(/^Request [0-9a-f-]{36}$/).waitFor();
  await page.getByLabel("Password").fill(password);
  await page.keyboard.press("Enter");
  await page.getByRole("navigation").waitFor();
}

/** Made in the dialog, used with every tool, extended, paused, woken, stopped and forgotten. */
async function sandbox(page) {
  await signIn(page);
  await page.getByRole("button", { name: "Create a sandbox" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("first");
  await dialog.getByLabel("Memory (MiB)").fill("256");
  await dialog.getByLabel("Labels").fill("course:cs101 student:<b>ada");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "first" }).waitFor();
  await page.locator(".state.running").waitFor();
  await page.getByText("student: <b>ada").waitFor();

  const command = "printf 'a\\033[31mb\\033[0m<i>'; echo oops >&2; exit 3";
  await page.getByRole("textbox", { name: "Command" }).fill(command);
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByText(/exit status 3/).waitFor();
  const output = page.locator("pre.output");
  check((await output.innerText()).includes("ab<i>"), "the output is text without escapes");
  check((await output.locator(".stderr").innerText()).includes("oops"), "errors are shown");

  await page.getByRole("tab", { name: "Terminal" }).click();
  await page.getByText("connected", { exact: true }).waitFor();
  await page.keyboard.type("echo $((6 * 7)) > made; echo is $(cat made)\n");
  await page.locator(".xterm-rows", { hasText: "is 42" }).waitFor();
  const row = await page.locator(".xterm-rows > div").first().boundingBox();
  check(row && row.height > 10 && row.width > 300, "the terminal has its style");

  await page.getByRole("tab", { name: "Files" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "made" }).click(),
  ]);
  check(download.suggestedFilename() === "made", "a file is saved by its name");

  await page.getByRole("tab", { name: "Processes" }).click();
  await page.locator("table").getByText("exited", { exact: false }).first().waitFor();

  await page.getByRole("tab", { name: "Metrics" }).click();
  await page.locator(".uplot canvas").first().waitFor();

  const left = page.getByRole("progressbar", { name: "Lease left" });
  await left.waitFor();
  await page.getByRole("button", { name: /^Extend/ }).click();
  await page.getByText(/^(59|60) min|^1 h/).first().waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.locator(".state.paused").waitFor();
  await page.getByRole("button", { name: "Wake" }).click();
  await page.locator(".state.running").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".state.stopped").waitFor();

  await show(page, "Sandboxes");
  await page.getByText("No sandbox is like that").waitFor();
  await page.getByLabel("with stopped ones").check();
  await page.getByLabel("Labels").fill("course:cs101");
  await page.getByRole("link", { name: "first" }).waitFor();
  await page.getByLabel("Labels").fill("course:other");
  await page.getByText("No sandbox is like that").waitFor();
  await page.getByLabel("Labels").fill("");
  await page.getByRole("link", { name: "first" }).click();
  await page.getByRole("button", { name: "Forget" }).click();
  await page.getByRole("heading", { level: 1, name: "Sandboxes" }).waitFor();
  await page.getByLabel("with stopped ones").check();
  await page.getByText("No sandbox is like that").waitFor();
}

/** More sandboxes than a page has: on and back, and another filter is another list. */
async function many(page) {
  await signIn(page);
  const of = (name) => page.getByRole("link", { name, exact: true });
  await of("box-0").waitFor();
  check(await page.getByRole("button", { name: "Previous" }).isDisabled(), "it is the first page");
  await page.getByRole("button", { name: "Next" }).click();
  await of("box-54").waitFor();
  await page.getByRole("button", { name: "Previous" }).click();
  await of("box-0").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await of("box-54").waitFor();
  check(await page.getByRole("button", { name: "Next" }).isDisabled(), "it is the last page");
  await page.getByLabel("Labels").fill("place:0");
  await of("box-0").waitFor();
  await of("box-54").waitFor({ state: "detached" });
}

/** What a sandbox cost, by day, key and label, and as a file. */
async function usage(page) {
  await signIn(page, "/usage");
  await page.locator(".uplot canvas").waitFor();
  const spent = await page.locator("dd").first().innerText();
  check(/^\$0\.\d*[1-9]/.test(spent), `something was spent: ${spent}`);
  await page.getByLabel("Group").selectOption("label");
  await page.getByRole("cell", { name: /cs101/ }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("link", { name: "Save as CSV" }).click(),
  ]);
  check(download.suggestedFilename() === "usage-by-label.csv", "the file has a name");
  await show(page, "Audit log");
  await page.getByText("session.created").first().waitFor();
}

/** A program asks; a person gives it a key that only reads, with a limit. */
async function approve(page) {
  await signIn(page, "/approvals");
  const card = page.getByRole("region", { name: /asks for a key/ });
  await card.getByText(process.env.CONSOLE_CODE).waitFor();
  await card.getByText("grade <b>homework</b>").waitFor();
  await card.getByLabel("Access").selectOption("read");
  await card.getByLabel(/Daily limit/).fill("much");
  check(await card.getByRole("button", { name: "Approve" }).isDisabled(), "no amount is refused");
  await card.getByLabel(/Daily limit/).fill("2.5");
  await card.getByRole("button", { name: "Approve" }).click();
  await page.getByText("No program asks for a key").waitFor();
}

async function deny(page) {
  await signIn(page, "/approvals");
  await page.getByRole("button", { name: "Deny" }).click();
  await page.getByText("No program asks for a key").waitFor();
}

/** A key, shown once and copied; the outside sees it work and end by what this prints. */
async function keys(page) {
  await signIn(page, "/keys");
  await page.getByRole("button", { name: "Make a key" }).click();
  await page.getByLabel("Name").fill("grading-bot");
  await page.getByLabel(/Daily limit/).fill("1");
  await page.getByRole("button", { name: "Make it" }).click();
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const key = await page.locator(".secret").innerText();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  check(copied === key, "the copy is the key");
  await page.getByRole("button", { name: "Done" }).click();
  const works = async () =>
    (await fetch(`${url}/v1/me`, { headers: { Authorization: `Bearer ${key}` } })).status;
  check((await works()) === 200, "the key works");

  const row = page.getByRole("row", { name: /grading-bot/ });
  await row.getByText("$1.00").waitFor();
  await row.getByRole("button", { name: "Limit" }).click();
  await page.getByLabel(/Dollars/).fill("7.25");
  await page.getByRole("button", { name: "Set" }).click();
  await row.getByText("$7.25").waitFor();
  await row.getByRole("button", { name: "Limit" }).click();
  await page.getByLabel(/Dollars/).fill("");
  await page.keyboard.press("Enter");
  await row.getByText("none").waitFor();
  await row.getByRole("button", { name: "Revoke" }).click();
  await row.getByText(/^revoked/).waitFor();
  check((await works()) === 401, "the key is refused");
  check(!(await page.content()).includes(key), "the key is not shown again");
}

/** An image of a recipe without a network: its log as it is written, its version, a tag, its end. */
async function images(page) {
  await signIn(page, "/images");
  await page.getByRole("button", { name: "Build an image" }).click();
  await page.getByLabel("Name").fill("made-here");
  await page.getByLabel("Commands").fill("echo 'built for <b>you</b>'");
  await page.getByRole("button", { name: "Build", exact: true }).click();
  await page.locator("pre.output", { hasText: /^built for <b>you/m }).waitFor({ timeout: 90_000 });
  const row = page.getByRole("row", { name: /made-here@1/ });
  await row.locator(".state.ready").waitFor({ timeout: 90_000 });
  await row.getByRole("button", { name: "Tag" }).click();
  await page.getByRole("dialog").getByLabel("Tag").fill("stable");
  await page.getByRole("dialog").getByRole("button", { name: "Tag" }).click();
  await row.getByText("stable").waitFor();
  await row.getByRole("button", { name: "Delete" }).click();
  await row.waitFor({ state: "detached" });
}

/** No page is wider than a telephone, and every page can be reached with the keyboard alone. */
async function narrow(page) {
  await signIn(page);
  for (const name of pages) {
    await show(page, name);
    await page.waitForLoadState("networkidle");
    const over = await page.evaluate(
      () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
    );
    check(over <= 0, `${name} is ${over} pixels too wide`);
  }
}

async function keyboard(page) {
  await signIn(page);
  for (const name of pages) {
    await page.getByRole("link", { name: "Sealmark" }).focus();
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press("Tab");
      if ((await page.locator(":focus").innerText()) === name) break;
    }
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name }).waitFor();
  }
  await show(page, "Sandboxes");
  await page.getByRole("button", { name: "Create a sandbox" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

const phone = { viewport: { width: 375, height: 700 }, colorScheme: "dark" };
const scenes = {
  owner: () => withPage(owner, {}, [401]),
  sandbox: () => withPage(sandbox),
  many: () => withPage(many),
  usage: () => withPage(usage),
  approve: () => withPage(approve),
  deny: () => withPage(deny),
  keys: () => withPage(keys),
  images: () => withPage(images),
  narrow: () => withPage(narrow, phone),
  keyboard: () => withPage(keyboard),
};
await scenes[process.argv[2]]();
