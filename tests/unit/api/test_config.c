/* SPDX-License-Identifier: Apache-2.0 - the operator's file: what it sets, and what it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/api.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fixture {
	char path[64];
	struct api_options options;
	struct api_config *config;
	struct buffer wrong;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	text_copy(f->path, sizeof(f->path), "/tmp/sealmark-config-XXXXXX");
	close(mkstemp(f->path));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	api_config_free(f->config);
	buffer_fini(&f->wrong);
	unlink(f->path);
	free(f);
	return 0;
}

static int load(struct fixture *f, const char *text)
{
	FILE *file = fopen(f->path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	return api_config_load(f->path, &f->options, &f->wrong, &f->config, NULL);
}

/* The line of complaints that begins with FILE:`where`: */
static void complains(struct fixture *f, const char *where, const char *what)
{
	char start[96], *line;

	text_format(start, sizeof(start), "%s:%s: ", f->path, where);
	line = strstr(buffer_text(&f->wrong), start);
	if (!line || !strstr(line, what))
		fail_msg("no \"%s\" at %s in:\n%s", what, where, buffer_text(&f->wrong));
}

static void every_key_is_read(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "listen: 127.0.0.1:9000\n"
				 "store: /srv/s.db\n"
				 "tls: {cert: /c.pem, key: /k.pem}\n"
				 "isolation: kernel\n"
				 "rate: 7\n"
				 "quotas:\n"
				 "  sandboxes: 3\n"
				 "  memoryMiB: 4096\n"
				 "  vcpu: 2\n"
				 "  reservedVcpu: 1\n"
				 "  perKey: {sandboxes: 1, memoryMiB: 512, vcpu: 1}\n"),
		0);
	assert_string_equal(f->options.listen, "127.0.0.1:9000");
	assert_string_equal(f->options.store, "/srv/s.db");
	assert_string_equal(f->options.tls_cert, "/c.pem");
	assert_string_equal(f->options.tls_key, "/k.pem");
	assert_string_equal(f->options.isolation, "kernel");
	assert_int_equal(f->options.rate, 7);
	assert_int_equal(f->options.sandboxes_most, 3);
	assert_int_equal(f->options.memory_most_mib, 4096);
	assert_int_equal(f->options.vcpu_most, 2);
	assert_int_equal(f->options.reserved_most, 1);
	assert_int_equal(f->options.key_sandboxes_most, 1);
	assert_int_equal(f->options.key_memory_most_mib, 512);
	assert_int_equal(f->options.key_vcpu_most, 1);
}

static void everything_wrong_is_said_at_once(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "lisen: 127.0.0.1:9000\n"
				 "store: s.db\n"
				 "quotas:\n"
				 "  sandboxes: many\n"
				 "  memory: 5\n"
				 "isolation: strong\n"
				 "tls: yes\n"
				 "rate: 0\n"),
		-EINVAL);
	complains(f, "1:1", "listen is meant?");
	complains(f, "2:8", "/etc/sealmark/s.db");
	complains(f, "4:14", "quotas.sandboxes");
	complains(f, "5:3", "memoryMiB");
	complains(f, "6:12", "none, process, kernel, hardware");
	complains(f, "7:6", "tls: keys and values");
	complains(f, "8:7", "rate");
	assert_null(f->config);
}

static void no_value_is_no_change(void **state)
{
	struct fixture *f = *state;

	f->options.rate = 9;
	assert_int_equal(load(f, "rate:\nlisten: null\nquotas:\n"), 0);
	assert_int_equal(f->options.rate, 9);
	assert_null(f->options.listen);
}

static void an_empty_file_says_nothing(void **state)
{
	assert_int_equal(load(*state, "# nothing\n"), 0);
}

static void no_map_is_refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "- listen\n"), -EINVAL);
	complains(f, "1:1", "keys and values");
}

/* names with dots are not another way to write a map */
static void dots_are_no_path(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "tls.cert: /c.pem\n"), -EINVAL);
	complains(f, "1:1", "tls.cert");
}

static void what_is_shown_can_be_read(void **state)
{
	struct fixture *f = *state;
	struct buffer shown = {0};
	struct api_options first;

	f->options = (struct api_options){.store = "/s.db", .rate = 3, .key_vcpu_most = 2};
	api_options_complete(&f->options);
	first = f->options;
	assert_int_equal(api_config_show(&f->options, &shown), 0);
	f->options = (struct api_options){0};
	assert_int_equal(load(f, buffer_text(&shown)), 0);
	assert_string_equal(f->options.listen, first.listen);
	assert_string_equal(f->options.store, "/s.db");
	assert_int_equal(f->options.rate, 3);
	assert_int_equal(f->options.memory_most_mib, first.memory_most_mib);
	assert_int_equal(f->options.key_vcpu_most, 2);
	assert_int_equal(f->options.key_sandboxes_most, 0);
	assert_null(f->options.tls_cert);
	buffer_fini(&shown);
}

static void rules_of_egress_are_read_and_shown(void **state)
{
	struct fixture *f = *state;
	struct buffer shown = {0};

	assert_int_equal(load(f, "egress:\n"
				 "  alsoAllow: [10.1.0.0/16, \"fd00::/8\"]\n"
				 "  deny:\n"
				 "    - \"*.example.org\"\n"
				 "    - 192.0.2.1:25\n"),
		0);
	assert_string_equal(f->options.egress_also_allow[0], "10.1.0.0/16");
	assert_string_equal(f->options.egress_also_allow[1], "fd00::/8");
	assert_null(f->options.egress_also_allow[2]);
	assert_string_equal(f->options.egress_deny[1], "192.0.2.1:25");
	assert_null(f->options.egress_deny[2]);
	assert_int_equal(api_config_show(&f->options, &shown), 0);
	assert_non_null(
		strstr(buffer_text(&shown), "  deny: [\"*.example.org\", \"192.0.2.1:25\"]\n"));
	buffer_fini(&shown);
}

static void wrong_rules_of_egress_are_named(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(load(f, "egress:\n"
				 "  alsoAllow: [mirror.example.org]\n"
				 "  deny: [ok.org, \"http://x.org/\"]\n"),
		-EINVAL);
	complains(f, "2:15", "is not an address or a range");
	complains(f, "3:18", "is not a name");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_key_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(everything_wrong_is_said_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(no_value_is_no_change, setup, teardown),
		cmocka_unit_test_setup_teardown(an_empty_file_says_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(no_map_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(dots_are_no_path, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_shown_can_be_read, setup, teardown),
		cmocka_unit_test_setup_teardown(
			rules_of_egress_are_read_and_shown, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_rules_of_egress_are_named, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
