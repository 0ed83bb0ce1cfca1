/* SPDX-License-Identifier: Apache-2.0 - sandboxes with scripted machines, see box.h. */
#include "box.h"

#include "base/text.h"

#include <string.h>

struct sandbox_spec box_spec(struct home *home, const char *script)
{
	return (struct sandbox_spec){.home = home->path,
		.engine = "fake",
		.script = home_script(home, script),
		.require_isolation = "none",
		.memory_mib = 64,
		.cpu = -1};
}

struct sandbox *box_make(struct home *home, const char *script, int64_t patience_ms)
{
	struct sandbox_spec spec = box_spec(home, script);
	struct sandbox *s = NULL;
	struct error err = {0};

	spec.patience_ms = patience_ms;
	if (sandbox_create(&spec, &s, &err))
		fail_msg("%s", err.message);
	assert_non_null(s);
	return s;
}

void box_end(struct sandbox *s)
{
	struct sandbox_usage usage;
	struct error err = {0};

	if (sandbox_stop(s, &usage, &err))
		fail_msg("%s", err.message);
	sandbox_free(s);
}

int box_exec(struct sandbox *s, const char *command, struct exec_result *result, struct error *err)
{
	struct exec_spec spec = EXEC_SPEC_INIT;
	char text[256], *rest = text;
	const char *argv[16] = {0};

	assert_int_equal(text_copy(text, sizeof(text), command), 0);
	for (size_t i = 0; i < 15 && rest; i++)
		argv[i] = strsep(&rest, " ");
	spec.argv = argv;
	return sandbox_exec(s, &spec, result, err);
}

void box_expect_works(struct sandbox *s)
{
	struct exec_result result = {0};
	struct error err = {0};

	if (box_exec(s, "works", &result, &err))
		fail_msg("%s", err.message);
	assert_int_equal(result.reason, WIRE_END_EXITED);
	exec_result_fini(&result);
}
