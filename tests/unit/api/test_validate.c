/* SPDX-License-Identifier: Apache-2.0 - what bodies and queries may say, and every complaint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct field *body_of(const char *method, const char *path)
{
	for (const struct route *r = api_routes; r->method; r++) {
		if (strcmp(r->method, method) == 0 && strcmp(r->path, path) == 0)
			return r->body;
	}
	fail_msg("no route %s", path);
	return NULL;
}

/* the complaints as "path: message\n…" */
static const char *complaints(const struct field *fields, const char *text)
{
	static char out[8192];
	json_t *value = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	json_t *issues = json_array(), *issue;
	size_t i, n = 0;

	assert_non_null(value);
	validate_object(fields, value, "", issues);
	out[0] = 0;
	json_array_foreach (issues, i, issue)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s: %s\n",
			request_text(issue, "path", "?"), request_text(issue, "message", "?"));
	json_decref(value);
	json_decref(issues);
	return out;
}

static void bodies_that_are_right(void **state)
{
	static const char *const texts[] = {
		"{}",
		"{\"name\": \"n\", \"labels\": {\"a\": \"b\"}, \"env\": {\"A\": \"\"}}",
		"{\"vcpu\": 1, \"memoryMiB\": 2048, \"network\": {\"internet\": false},"
		" \"timeoutSeconds\": 300, \"onLeaseEnd\": \"stop\"}",
		"{\"maxTotalCostMicros\": null}",
		"{\"network\": {\"allow\": [], \"deny\": [\"*\"]}}",
	};
	const struct field *create = body_of("POST", "/v1/sandboxes");

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_string_equal(complaints(create, texts[i]), "");
}

static void every_wrong_field_is_named(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"[]", "must be an object"},
		{"5", "must be an object"},
		{"{\"memoryMB\": 5}", "memoryMB: is not a known field; did you mean memoryMiB?"},
		{"{\"colour\": 5}", "colour: is not a known field\n"},
		{"{\"vcpu\": 0}", "vcpu: must be an integer from 1 to 16"},
		{"{\"vcpu\": 17}", "vcpu: must be an integer"},
		{"{\"vcpu\": 1.0}", "vcpu: must be an integer"},
		{"{\"vcpu\": \"1\"}", "vcpu: must be an integer"},
		{"{\"vcpu\": null}", "vcpu: must be an integer"},
		{"{\"name\": \"\"}", "name: must have 1 to 128 bytes"},
		{"{\"name\": \"a\\u0000b\"}", "name: must not hold a zero byte"},
		{"{\"name\": 7}", "name: must be a string"},
		{"{\"pausable\": 1}", "pausable: must be true or false"},
		{"{\"cpu\": \"share\"}", "cpu: must be one of shared|reserved"},
		{"{\"cpu\": \"shared|reserved\"}", "cpu: must be one of"},
		{"{\"cpu\": \"\"}", "cpu: must be one of"},
		{"{\"labels\": []}", "labels: must be an object of strings"},
		{"{\"labels\": {\"a\": 1}}", "labels.a: must be a string"},
		{"{\"labels\": {\"\": \"1\"}}", "labels.: names have 1 to 256 bytes"},
		{"{\"network\": {\"internet\": 1}}", "network.internet: must be true or false"},
		{"{\"network\": {\"intrnet\": true}}",
			"network.intrnet: is not a known field; did you"},
		{"{\"network\": {\"allow\": [1]}}", "network.allow[0]: must be a string"},
		{"{\"network\": {\"allow\": \"x\"}}", "network.allow: must be a list"},
	};
	const struct field *create = body_of("POST", "/v1/sandboxes");
	const char *all;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *said = complaints(create, cases[i].text);

		if (!strstr(said, cases[i].says))
			fail_msg("%s: \"%s\" is not \"%s\"", cases[i].text, said, cases[i].says);
	}
	all = complaints(create, "{\"vcpu\": 0, \"name\": 1, \"x\": 2, \"labels\": {\"a\": 3}}");
	assert_non_null(strstr(all, "vcpu:"));
	assert_non_null(strstr(all, "name:"));
	assert_non_null(strstr(all, "x:"));
	assert_non_null(strstr(all, "labels.a:"));
}

static void what_is_needed_and_missing_is_named(void **state)
{
	const struct field *rename = body_of("POST", "/v1/sandboxes/{id}/files:rename");
	const struct field *exec = body_of("POST", "/v1/sandboxes/{id}:exec");
	char many[8192] = "{\"labels\": {";

	assert_string_equal(complaints(rename, "{}"), "from: is missing\nto: is missing\n");
	assert_non_null(strstr(
		complaints(rename, "{\"from\": null, \"to\": \"/x\"}"), "from: must be a string"));
	assert_non_null(strstr(complaints(exec, "{\"argv\": []}"), "argv: must be a list of 1 to"));
	for (int i = 0; i < 33; i++)
		snprintf(many + strlen(many), 32, "%s\"k%d\": \"v\"", i ? ", " : "", i);
	memcpy(many + strlen(many), "}}", 3);
	assert_string_equal(complaints(body_of("POST", "/v1/sandboxes"), many),
		"labels: must have at most 32 entries\n");
}

static void nulls_are_for_updates(void **state)
{
	const struct field *update = body_of("POST", "/v1/sandboxes/{id}:update");

	assert_string_equal(
		complaints(update, "{\"name\": null, \"env\": {\"A\": null, \"B\": \"x\"}}"), "");
	assert_non_null(strstr(complaints(update, "{\"labels\": {\"a\": null}}"), "labels.a"));
	assert_non_null(strstr(complaints(body_of("POST", "/v1/sandboxes"), "{\"name\": null}"),
		"name: must be a string"));
}

/* complaints never hold what a terminal would obey, and there is an end to them */
static void complaints_are_harmless(void **state)
{
	const struct field *create = body_of("POST", "/v1/sandboxes");
	char many[16384] = "{";

	assert_null(strchr(complaints(create, "{\"\\u001b[31m\": 1}"), 0x1b));
	for (int i = 0; i < 500; i++)
		snprintf(many + strlen(many), 32, "%s\"x%d\": 1", i ? ", " : "", i);
	memcpy(many + strlen(many), "}", 2);
	assert_true(strlen(complaints(create, many)) < 4096);
}

static void queries_become_what_the_fields_say(void **state)
{
	static const struct field fields[] = {
		{.name = "limit", .kind = FIELD_INTEGER, .least = 1, .most = 100},
		{.name = "all", .kind = FIELD_BOOLEAN},
		{.name = "label", .kind = FIELD_TEXTS, .most = 2},
		{.name = "path", .kind = FIELD_TEXT, .least = 1, .most = 9, .required = true},
		FIELDS_END,
	};
	json_t *given = json_pack("{s[s] s[s] s[ss] s[s]}", "limit", "7", "all", "true", "label",
		"a:b", "c:d", "path", "/x");
	json_t *out = json_object(), *issues = json_array();
	static const char *const wrong[] = {
		"0", "101", "", "7x", "x", "+7", " 7", "99999999999999999999", "1.5", "0x7"};

	validate_query(fields, given, out, issues);
	assert_int_equal(json_array_size(issues), 0);
	assert_int_equal(request_integer(out, "limit", 0), 7);
	assert_true(request_boolean(out, "all", false));
	assert_int_equal(json_array_size(json_object_get(out, "label")), 2);
	assert_string_equal(request_text(out, "path", ""), "/x");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		json_object_set_new(given, "limit", json_pack("[s]", wrong[i]));
		json_array_clear(issues);
		validate_query(fields, given, out, issues);
		if (json_array_size(issues) != 1)
			fail_msg("\"%s\" is taken for a number", wrong[i]);
	}
	json_decref(given);
	/* twice, unknown, missing, too many: each is named */
	given = json_pack(
		"{s[ss] s[s] s[sss]}", "limit", "1", "2", "lmit", "1", "label", "a", "b", "c");
	json_array_clear(issues);
	json_object_clear(out);
	validate_query(fields, given, out, issues);
	assert_int_equal(json_array_size(issues), 4);
	json_decref(given);
	json_decref(out);
	json_decref(issues);
}

static void base64_is_read_strictly(void **state)
{
	static const struct {
		const char *text;
		int code;
		size_t count;
	} cases[] = {{"", 0, 0}, {"AP8=", 0, 2}, {"aGVsbG8=", 0, 5}, {"YQ==", 0, 1}, {"YWJj", 0, 3},
		{"AP8", -EINVAL, 0}, {"****", -EINVAL, 0}, {"=", -EINVAL, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buffer out = {0};

		assert_int_equal(api_unbase64(cases[i].text, &out), cases[i].code);
		assert_int_equal(buffer_length(&out), cases[i].count);
		buffer_fini(&out);
	}
}

static void bytes_of_guests_become_text(void **state)
{
	static const struct {
		const char *bytes;
		size_t count;
		const char *text;
		bool exact;
	} cases[] = {{"", 0, "", true}, {"a\xc3\xa9", 3, "a\xc3\xa9", true},
		{"a\xff"
		 "b",
			3,
			"a\xef\xbf\xbd"
			"b",
			false},
		{"\xc3", 1, "\xef\xbf\xbd", false},
		{"\xf0\x9f\x98", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false},
		{"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", false}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool exact;
		json_t *text = api_guest_text(cases[i].bytes, cases[i].count, &exact);

		assert_string_equal(json_string_value(text), cases[i].text);
		assert_int_equal(exact, cases[i].exact);
		json_decref(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_that_are_right),
		cmocka_unit_test(every_wrong_field_is_named),
		cmocka_unit_test(what_is_needed_and_missing_is_named),
		cmocka_unit_test(nulls_are_for_updates),
		cmocka_unit_test(complaints_are_harmless),
		cmocka_unit_test(queries_become_what_the_fields_say),
		cmocka_unit_test(base64_is_read_strictly),
		cmocka_unit_test(bytes_of_guests_become_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
