/* SPDX-License-Identifier: Apache-2.0 - the table of routes: which one a request finds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void requests_find_their_route(void **state)
{
	static const struct {
		const char *method, *path, *pattern, *first, *second;
	} cases[] = {
		{"GET", "/v1/sandboxes", "/v1/sandboxes", "", ""},
		{"GET", "/v1/sandboxes/abc", "/v1/sandboxes/{id}", "abc", ""},
		{"POST", "/v1/sandboxes/abc:stop", "/v1/sandboxes/{id}:stop", "abc", ""},
		{"POST", "/v1/sandboxes/a-b_c.d:exec", "/v1/sandboxes/{id}:exec", "a-b_c.d", ""},
		{"GET", "/v1/sandboxes/x/files/content", "/v1/sandboxes/{id}/files/content", "x",
			""},
		{"POST", "/v1/sandboxes/x/files:mkdir", "/v1/sandboxes/{id}/files:mkdir", "x", ""},
		{"PUT", "/v1/sandboxes/x/uploads/u", "/v1/sandboxes/{id}/uploads/{upload}", "x",
			"u"},
		{"POST", "/v1/sandboxes/x/uploads/u:commit",
			"/v1/sandboxes/{id}/uploads/{upload}:commit", "x", "u"},
		{"GET", "/v1/images/resolve", "/v1/images/resolve", "", ""},
		{"GET", "/v1/images/resolved", "/v1/images/{id}", "resolved", ""},
	};
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST];
	const struct route *route;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(route_find(cases[i].method, cases[i].path, &route, params), 0);
		assert_string_equal(route->path, cases[i].pattern);
		assert_string_equal(route->method, cases[i].method);
		assert_string_equal(params[0], cases[i].first);
		assert_string_equal(params[1], cases[i].second);
	}
}

static void others_find_none(void **state)
{
	static const struct {
		const char *method, *path;
		int code;
	} cases[] = {
		{"GET", "/", -ENOENT},
		{"GET", "", -ENOENT},
		{"GET", "/v1", -ENOENT},
		{"GET", "/v1/sandboxes/", -ENOENT},
		{"GET", "/v1/sandboxes//files/stat", -ENOENT},
		{"GET", "/v1/sandboxes/a/b", -ENOENT},
		{"GET", "/v1/sandboxes/a:b:c", -ENOENT},
		{"GET", "/v1/sandboxes/..", 0}, /* an id that no record has */
		{"GET", "/v2/sandboxes", -ENOENT},
		{"POST", "/v1/sandboxes/a:", -ENOENT},
		{"POST", "/v1/sandboxes/:stop", -ENOENT},
		{"POST", "/v1/sandboxes/a:stopp", -ENOENT},
		{"PATCH", "/v1/sandboxes", -EINVAL},
		{"PUT", "/v1/sandboxes/a", -EINVAL},
		{"get", "/v1/sandboxes", -EINVAL},
		{"GET", "/v1/sandboxes/a:stop", -EINVAL},
	};
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST], path[512];
	const struct route *route;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (route_find(cases[i].method, cases[i].path, &route, params) != cases[i].code)
			fail_msg("%s %s", cases[i].method, cases[i].path);
	}
	memset(path, 'x', sizeof(path));
	memcpy(path, "/v1/sandboxes/", 14);
	path[14 + ROUTE_PARAM_MOST - 1] = 0; /* as long as a parameter may be */
	assert_int_equal(route_find("GET", path, &route, params), 0);
	path[14 + ROUTE_PARAM_MOST - 1] = 'x';
	path[14 + ROUTE_PARAM_MOST] = 0;
	assert_int_equal(route_find("GET", path, &route, params), -ENOENT);
}

/* each route is reached by a path made from its pattern: no other stands before it */
static void no_route_hides_another(void **state)
{
	char params[ROUTE_PARAMS][ROUTE_PARAM_MOST], path[512];
	const struct route *found;

	for (const struct route *r = api_routes; r->method; r++) {
		char *out = path;

		for (const char *p = r->path; *p;) {
			if (*p == '{') {
				*out++ = 'i';
				p = strchr(p, '}') + 1;
			} else {
				*out++ = *p++;
			}
		}
		*out = 0;
		assert_int_equal(route_find(r->method, path, &found, params), 0);
		if (found != r)
			fail_msg("%s %s is hidden by %s", r->method, r->path, found->path);
	}
}

/* every field of the table is in the document, with its limits */
static void openapi_says_what_the_table_says(void **state)
{
	json_t *document = openapi_document(api_routes), *paths;

	assert_non_null(document);
	paths = json_object_get(document, "paths");
	for (const struct route *r = api_routes; r->method; r++) {
		char method[16] = "";
		json_t *operation, *properties, *field;

		if (r->flags & ROUTE_PAGE) { /* for people, not for programs */
			assert_null(json_object_get(paths, r->path));
			continue;
		}
		for (size_t i = 0; r->method[i]; i++)
			method[i] = (char)(r->method[i] + 32);
		operation = json_object_get(json_object_get(paths, r->path), method);
		if (!operation)
			fail_msg("%s %s is not in the document", r->method, r->path);
		assert_true(json_is_object(json_object_get(operation, "responses")));
		properties = json_object_get(operation, "requestBody");
		properties = json_object_get(properties, "content");
		properties = json_object_get(properties, "application/json");
		properties = json_object_get(json_object_get(properties, "schema"), "properties");
		for (const struct field *f = r->body; f && f->name; f++) {
			field = json_object_get(properties, f->name);
			assert_non_null(field);
			if (f->kind == FIELD_INTEGER) {
				assert_int_equal(
					json_integer_value(json_object_get(field, "minimum")),
					f->least);
				assert_int_equal(
					json_integer_value(json_object_get(field, "maximum")),
					f->most);
			}
		}
	}
	json_decref(document);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_find_their_route),
		cmocka_unit_test(others_find_none),
		cmocka_unit_test(no_route_hides_another),
		cmocka_unit_test(openapi_says_what_the_table_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
