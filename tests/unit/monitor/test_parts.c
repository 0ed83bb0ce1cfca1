/* SPDX-License-Identifier: Apache-2.0 - parts of the monitor by themselves: configuration, console.
 */
#include "../base/unit.h"

#include "base/path.h"
#include "base/text.h"
#include "monitor/config.h"
#include "monitor/monitor.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- configuration --- */

#define PLAIN                                                                                      \
	"\"id\": \"a-1\", \"engine\": \"fake\", \"home\": \"/h\", \"memory_mib\": 64, "            \
	"\"disk_mib\": 1, \"files_most\": 64, \"lease_ms\": 1, \"start_timeout_ms\": 1, "          \
	"\"patience_ms\": 2, \"cpu\": -1"
#define FULL PLAIN ", \"require_isolation\": \"none\""

static int read_config(const char *text, struct monitor_config *out, struct error *err)
{
	int pair[2], r;

	assert_int_equal(pipe(pair), 0);
	assert_int_equal(path_write_fd(pair[1], text, strlen(text)), 0);
	close(pair[1]);
	r = monitor_config_read(pair[0], out, err);
	close(pair[0]);
	return r;
}

static void configuration_is_read(void **state)
{
	struct monitor_config c;
	struct error err = {0};

	assert_int_equal(read_config("{" FULL ", \"image\": null}", &c, &err), 0);
	assert_string_equal(c.id, "a-1");
	assert_string_equal(c.home, "/h");
	assert_string_equal(c.image, "");
	assert_int_equal(c.memory_mib, 64);
	assert_int_equal(c.patience_ms, 2);
	assert_int_equal(c.cpu, -1);
}

static void wrong_configurations_are_named(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "not a JSON object"},
		{"[]", "not a JSON object"},
		{"{" PLAIN "}", "require_isolation is missing"},
		{"{" FULL ", \"colour\": 1}", "colour: unknown field"},
		{"{" FULL ", \"image\": 5}", "image must be a string"},
		{"{" FULL ", \"cpu\": 1}", "not a JSON object"}, /* twice */
		{"{\"id\": \"\", \"engine\": \"\"}", "home is missing"},
		{"{" PLAIN ", \"require_isolation\": \"a very long word\"}", "is too long"},
	};
	struct monitor_config c;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};

		assert_int_equal(read_config(cases[i].text, &c, &err), -EINVAL);
		if (!strstr(err.message, cases[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.message, cases[i].says);
	}
}

static void numbers_have_bounds(void **state)
{
	static const struct {
		const char *name;
		long long least, most;
	} bounds[] = {{"memory_mib", 64, 65536}, {"disk_mib", 1, 65536}, {"cpu", -1, 4095},
		{"detached", 0, 1}, {"lease_ms", 1, 1LL << 40}, {"start_timeout_ms", 1, 600000}};
	struct monitor_config c;

	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		const long long values[] = {
			bounds[i].least, bounds[i].most, bounds[i].least - 1, bounds[i].most + 1};

		for (size_t k = 0; k < 4; k++) {
			json_t *object = json_loads("{" FULL "}", 0, NULL);
			struct error err = {0};
			char *text;

			json_object_set_new(object, bounds[i].name, json_integer(values[k]));
			text = json_dumps(object, 0);
			assert_non_null(text);
			assert_int_equal(read_config(text, &c, &err), k < 2 ? 0 : -EINVAL);
			if (k >= 2)
				assert_non_null(strstr(err.message, bounds[i].name));
			json_decref(object);
			free(text);
		}
	}
}

/* --- console --- */

struct fixture {
	struct monitor monitor;
	int end; /* that the machine writes to */
};

static int console_setup(void **state)
{
	static struct fixture f;
	int pair[2];

	memset(&f, 0, sizeof(f));
	if (pipe2(pair, O_NONBLOCK) || uv_loop_init(&f.monitor.loop) ||
		console_start(&f.monitor.console, &f.monitor, pair[0]))
		return -1;
	f.end = pair[1];
	*state = &f;
	return 0;
}

static int console_teardown(void **state)
{
	struct fixture *f = *state;

	console_close(&f->monitor.console);
	console_close(&f->monitor.console);
	uv_run(&f->monitor.loop, UV_RUN_DEFAULT);
	return uv_loop_close(&f->monitor.loop) || close(f->end);
}

static void say(struct fixture *f, const void *bytes, size_t count)
{
	assert_int_equal(write(f->end, bytes, count), count);
	uv_run(&f->monitor.loop, UV_RUN_NOWAIT);
}

static void console_keeps_its_last_lines(void **state)
{
	struct fixture *f = *state;
	char text[2048], line[64];

	console_text(&f->monitor.console, text, sizeof(text));
	assert_string_equal(text, "");
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "line %d\n", i);
		say(f, line, strlen(line));
	}
	console_text(&f->monitor.console, text, sizeof(text));
	assert_non_null(strstr(text, "line 998\nline 999\n"));
	assert_null(strstr(text, "line 500\n"));
	assert_true(strlen(text) < sizeof(text));
}

static void console_is_harmless_to_print(void **state)
{
	static const char evil[] = "\x1b[2Jred\xff\0bell\a\xe2\x80\xae";
	struct fixture *f = *state;
	char text[2048];

	for (int i = 0; i < 200; i++)
		say(f, evil, sizeof(evil));
	console_text(&f->monitor.console, text, sizeof(text));
	assert_true(strlen(text) > 100);
	assert_true(text_is_utf8(text, strlen(text)));
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= ' ' || *p == '\n');
}

/* A flood is read at a small rate after the first MiB: the machine waits, not the monitor. */
static void console_flood_is_slowed_down(void **state)
{
	struct fixture *f = *state;
	static uint8_t block[65536];

	for (int i = 0; i < 2000; i++) {
		if (write(f->end, block, sizeof(block)) < 0)
			assert_int_equal(errno, EAGAIN);
		uv_run(&f->monitor.loop, UV_RUN_NOWAIT);
	}
	assert_true(f->monitor.console.total_bytes > 1u << 20);
	/* 2000 turns take no second: at most ten pieces more */
	assert_true(f->monitor.console.total_bytes <= (1u << 20) + 11 * 4096);
}

static void console_that_ends_is_left_alone(void **state)
{
	struct fixture *f = *state;
	char text[64];

	say(f, "bye\n", 4);
	close(f->end);
	f->end = open("/dev/null", O_WRONLY);
	for (int i = 0; i < 10; i++)
		uv_run(&f->monitor.loop, UV_RUN_NOWAIT);
	assert_false(uv_loop_alive(&f->monitor.loop)); /* nothing spins */
	console_text(&f->monitor.console, text, sizeof(text));
	assert_string_equal(text, "bye\n");
}

#define CONSOLE(name) cmocka_unit_test_setup_teardown(name, console_setup, console_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configuration_is_read),
		cmocka_unit_test(wrong_configurations_are_named),
		cmocka_unit_test(numbers_have_bounds),
		CONSOLE(console_keeps_its_last_lines),
		CONSOLE(console_is_harmless_to_print),
		CONSOLE(console_flood_is_slowed_down),
		CONSOLE(console_that_ends_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
